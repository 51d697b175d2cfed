"""What a request may have how many of."""

import httpx
import pytest

from server.dialects.common.body import MAX_FIELDS
from server.errors import HttpError
from server.settings import Settings
from server.turns.request_checks import check_echoed
from tests.scripted_model import scripted
from tests.server.running_server import Json, running

SMALL = Settings(max_tools=2, max_template_kwargs=20)
HELLO: Json = {"messages": [{"role": "user", "content": "Hi"}]}
TOOL: Json = {"type": "function", "function": {"name": "ping"}}
TOO_MANY: list[tuple[Json, str, str]] = [
    ({"tools": [TOOL] * 3}, "/tools", "--max-tools"),
    ({"chat_template_kwargs": {"a": "x" * 20}}, "/chat_template_kwargs", "--max-template-kwargs"),
    ({f"f{number}": 1 for number in range(MAX_FIELDS)}, "", f"limit is {MAX_FIELDS}"),
]


def test_too_many() -> None:
    with running(scripted("Hi"), SMALL) as client:
        for body, where, option in TOO_MANY:
            response = ask(client, body)
            assert response.status_code == 400
            error: Json = response.json()["error"]
            assert error["param"] == where
            assert option in error["message"]
        assert ask(client, {"chat_template_kwargs": {}}).status_code == 200


def ask(client: httpx.Client, body: Json) -> httpx.Response:
    return client.post("/v1/chat/completions", json={**HELLO, **body})


def test_what_only_comes_back_is_short() -> None:
    settings = Settings(max_echoed=20)
    check_echoed({"user": "x" * 18, "metadata": None}, settings)
    with pytest.raises(HttpError, match="--max-echoed") as caught:
        check_echoed({"user": "x", "metadata": {"a": "x" * 18}}, settings)
    assert caught.value.where == "/metadata"
