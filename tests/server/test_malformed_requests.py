"""Requests that are wrong in odd ways get an answer of 400, and the server goes on."""

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from constrained.errors import ModelError
from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.dialects.chat.chat_client import CHAT, HELLO, SHORT, ask
from tests.server.running_server import Json, running, stream
from tests.templates import PING


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(scripted("Hello")) as served:
        yield served


ODD: list[Json] = [
    {"messages": [{"role": "user", "content": [{"type": [], "text": "x"}]}]},
    {"messages": [{"role": "user", "content": [{"type": {}, "text": "x"}]}]},
    {"logit_bias": {"1" * 5000: 1}},
    {"logit_bias": {"\ud800": 1}},
    {"stop": ["a" * 100_000]},
    {"temperature": 1e300},
    {"response_format": {"type": "json_object", "schema": {"enum": ["\ud800"]}}},
    {"choice": [f"option {number}" for number in range(70_000)]},
    {"json_schema": {"description": "x" * 2_000_000}},
    {"structured_outputs": {"regex": "x" * 2_000_000}},
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: next(iter(odd)))
def test_odd_values(client: httpx.Client, odd: Json) -> None:
    import json

    body = json.dumps({**SHORT, **odd})  # in ASCII: httpx refuses lone surrogates
    response = client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400, response.text[:500]
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_an_id_that_is_no_text(client: httpx.Client) -> None:
    import json

    call = {"id": "call_\ud800", "type": "function", "function": {"name": "ping"}}
    messages = [*HELLO, {"role": "assistant", "tool_calls": [call]}]
    messages += [{"role": "tool", "tool_call_id": "call_\ud800", "content": "x"}]
    body = json.dumps({**SHORT, "messages": messages, "tools": [PING]})
    response = client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200, response.text


def test_a_sequence_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    model = scripted("Hello")
    sequences = model._runner._schedule._sequences
    claim, failures = sequences.claim, [ModelError("no room")]

    def fail_once(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return claim(*arguments)

    monkeypatch.setattr(sequences, "claim", fail_once)
    with running(model) as client:
        response = client.post(CHAT, json=SHORT)
        assert response.status_code == 503
        assert "no room" in response.json()["error"]["message"]
        assert ask(client)["choices"][0]["message"]["content"] == "Hello"


def test_notes_need_no_chunk_of_their_own(client: httpx.Client) -> None:
    body: Json = {**SHORT, "frobnicate": 1}
    chunks = [data for _, data in stream(client, CHAT, body)]
    assert all(chunk["choices"] for chunk in chunks)
    assert chunks[-1]["constrained"] == {"ignored_fields": ["frobnicate"]}


def test_errors_are_logged_without_what_they_quote(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "constrained.server"), running(scripted("Hi")) as client:
        response = client.post(CHAT, json={**SHORT, "tool_choice": "my secret"})
        assert "my secret" in response.json()["error"]["message"]
    assert "status 400" in caplog.text
    assert "secret" not in caplog.text


def test_a_failure_of_the_server_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    model = scripted("Hello")

    async def fail(job: Any, **options: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(model, "acompile", fail)
    with running(model, Settings()) as client:
        response = client.post(CHAT, json=SHORT, headers={"X-Request-Id": "mine"})
        assert response.status_code == 500
        assert "a bug" not in response.text
        assert response.headers["connection"] == "close"
        assert response.headers["x-request-id"] == "mine"
        failed = client.post("/v1/messages", json=SHORT)
        assert failed.json()["type"] == "error"
        assert failed.headers["request-id"] == failed.headers["x-request-id"]
        metrics = client.get("/metrics").text
        assert 'constrained_requests_total{path="/v1/chat/completions",status="500"} 1.0' in metrics
        assert client.get("/health").status_code == 200


NO_REQUESTS = (b"", b"null", b"[]", b"5", b"{", b"\xff", b'{"\xff": 1}', b"[" * 10_000, b"NaN")


def test_what_is_no_request_is_never_a_fault_of_the_server(client: httpx.Client) -> None:
    """Every path, whoever validates its body."""
    paths = client.get("/openapi.json").json()["paths"]
    posts = [path for path, methods in paths.items() if "post" in methods]
    assert "/v1/messages" in posts
    for path in posts:
        for body in NO_REQUESTS:
            headers = {"Content-Type": "application/json"}
            response = client.post(path.replace("{id}", "x"), content=body, headers=headers)
            assert 400 <= response.status_code < 500 or response.status_code == 501, (path, body)
            assert "error" in response.json()


def test_a_body_that_is_not_there_is_named(client: httpx.Client) -> None:
    response = client.post("/models/load", headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "the body is empty: send a JSON object"
