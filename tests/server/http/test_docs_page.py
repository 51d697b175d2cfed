"""The page at /docs, which has to work without a network."""

import re

import httpx

from server.http.docs_page import write_page


def test_the_page_names_every_path_and_its_fields(plain: httpx.Client) -> None:
    response = plain.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    document = plain.get("/openapi.json").json()
    for path, item in document["paths"].items():
        for method in item:
            assert f"<code>{method.upper()} {path}</code>" in response.text
    for field in ("messages", "tool_choice", "reasoning_effort", "num_predict"):
        assert f"<td><code>{field}</code></td>" in response.text


def test_the_page_describes_fields_replies_examples_and_keys(plain: httpx.Client) -> None:
    page = plain.get("/docs").text
    assert "Texts at which the reply ends; they are not part of it." in page
    assert "<code>application/json</code> or <code>text/event-stream</code>" in page
    assert "&quot;content&quot;: &quot;Hello!&quot;" in page
    assert "No API key is needed" in page
    assert "<td><code>after</code></td><td>string</td><td></td><td>Continue after" in page


def test_nothing_is_loaded_from_elsewhere(plain: httpx.Client) -> None:
    page = plain.get("/docs").text
    assert "<script" not in page
    linked = re.findall(r"""(?:href|src)=["']?([^"' >]+)""", page)
    assert linked == ["data:,", "openapi.json"]  # no icon, for which browsers would ask
    assert "url(" not in page


def test_what_a_document_says_is_text() -> None:
    operation = {"description": "a <b> & c", "responses": {}}
    info = {"title": "<x>", "version": "1"}
    page = write_page({"info": info, "paths": {"/<a>": {"get": operation}}})
    assert "<b>" not in page
    assert "a &lt;b&gt; &amp; c" in page
    assert "<code>GET /&lt;a&gt;</code>" in page
