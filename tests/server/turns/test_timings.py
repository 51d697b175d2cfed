"""llama-server's `timings` and `ignore_eos`, in both dialects."""

from collections.abc import Iterator

import httpx
import pytest

from tests.scripted_model import scripted
from tests.server.running_server import Json, needs_own_engine, running
from tests.templates import PING

pytestmark = needs_own_engine

LONG = "Tell me more. " * 60  # longer than one step of the schedule
CHAT: Json = {"messages": [{"role": "user", "content": LONG}], "max_tokens": 8}
TEXT: Json = {"prompt": f"{LONG}<|im_start|>assistant\n", "max_tokens": 8}
SOURCE = (
    "{% for message in messages %}{{ message.content }}{% endfor %}{{ '<|im_start|>assistant\\n' }}"
)
"""No text of this template ends a turn: only the end token does."""
REQUESTS = [("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)]
dialects = pytest.mark.parametrize(("path", "body"), REQUESTS, ids=["chat", "text"])


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(scripted("Hello", source=SOURCE)) as served:
        yield served


@dialects
def test_a_whole_reply_has_timings(client: httpx.Client, path: str, body: Json) -> None:
    reply = client.post(path, json=body).json()
    assert reply["timings"]["predicted_n"] == len("Hello")
    assert "constrained" not in reply


@dialects
def test_its_progress_is_not_reported(client: httpx.Client, path: str, body: Json) -> None:
    body = {**body, "return_progress": True, "timings_per_token": True}
    reply = client.post(path, json=body)
    assert reply.headers["x-ignored-fields"] == "return_progress, timings_per_token"


@dialects
def test_no_end_token_is_sampled(client: httpx.Client, path: str, body: Json) -> None:
    body = {**body, "max_tokens": 30, "ignore_eos": True}
    reply = client.post(path, json=body).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 30


@dialects
def test_a_grammar_goes_before_that(client: httpx.Client, path: str, body: Json) -> None:
    body = {**body, "max_tokens": 30, "ignore_eos": True, "regex": "Hello{1,9}"}
    reply = client.post(path, json=body).json()
    (choice,) = reply["choices"]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    assert text == "Hell" + "o" * 9
    assert choice["finish_reason"] == "stop"


def test_beside_tools_it_is_refused(client: httpx.Client) -> None:
    body = {**CHAT, "ignore_eos": True, "tools": [PING]}
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "/ignore_eos"
    assert "calls without end" in response.json()["error"]["message"]
    allowed = client.post("/v1/chat/completions", json={**body, "tool_choice": "none"})
    assert allowed.json()["choices"][0]["finish_reason"] == "length"


def test_turns_that_end_with_a_text_cannot_ignore_it() -> None:
    with running(scripted("Hello")) as client:  # ChatML, whose end is no token of this vocabulary
        response = client.post("/v1/chat/completions", json={**CHAT, "ignore_eos": True})
    assert response.status_code == 400
    assert "<|im_end|>" in response.json()["error"]["message"]
