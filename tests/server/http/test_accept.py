"""Which form a client asks for."""

import pytest

from server.http.accept import prefers_html

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize("accept", [CHROME, "text/html", "text/*", "TEXT/HTML ; q=0.9, */*;q=0.1"])
def test_browsers_get_html(accept: str):
    assert prefers_html(accept)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        "application/json, text/html",
        "application/json, text/html;q=0.9",
        "text/html;q=0",
        "text/html;q=high",
        "image/png",
        ";;,,",
    ],
)
def test_others_get_json(accept: str):
    assert not prefers_html(accept)
