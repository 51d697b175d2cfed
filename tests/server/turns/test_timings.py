"""llama-server's `timings` and `ignore_eos`."""

from collections.abc import Iterator

import httpx
import pytest

from tests.scripted_model import scripted
from tests.server.running_server import Json, needs_own_engine, running
from tests.templates import PING

pytestmark = needs_own_engine

LONG = "Tell me more. " * 60  # longer than one step of the schedule
CHAT: Json = {"messages": [{"role": "user", "content": LONG}], "max_tokens": 8}
SOURCE = (
    "{% for message in messages %}{{ message.content }}{% endfor %}{{ '<|im_start|>assistant\\n' }}"
)
"""No text of this template ends a turn: only the end token does."""
PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(scripted("Hello", source=SOURCE)) as served:
        yield served


def test_a_whole_reply_has_timings(client: httpx.Client) -> None:
    reply = client.post(PATH, json=CHAT).json()
    assert reply["timings"]["predicted_n"] == len("Hello")
    assert "constrained" not in reply


def test_its_progress_is_not_reported(client: httpx.Client) -> None:
    body = {**CHAT, "return_progress": True, "timings_per_token": True}
    reply = client.post(PATH, json=body)
    assert reply.headers["x-ignored-fields"] == "return_progress, timings_per_token"


def test_no_end_token_is_sampled(client: httpx.Client) -> None:
    body = {**CHAT, "max_tokens": 30, "ignore_eos": True}
    reply = client.post(PATH, json=body).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 30


def test_a_grammar_goes_before_that(client: httpx.Client) -> None:
    body = {**CHAT, "max_tokens": 30, "ignore_eos": True, "regex": "Hello{1,9}"}
    reply = client.post(PATH, json=body).json()
    (choice,) = reply["choices"]
    assert choice["message"]["content"] == "Hell" + "o" * 9
    assert choice["finish_reason"] == "stop"


def test_beside_tools_it_is_refused(client: httpx.Client) -> None:
    body = {**CHAT, "ignore_eos": True, "tools": [PING]}
    response = client.post(PATH, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "/ignore_eos"
    assert "calls without end" in response.json()["error"]["message"]
    allowed = client.post(PATH, json={**body, "tool_choice": "none"})
    assert allowed.json()["choices"][0]["finish_reason"] == "length"


def test_turns_that_end_with_a_text_cannot_ignore_it() -> None:
    with running(scripted("Hello")) as client:  # ChatML, whose end is no token of this vocabulary
        response = client.post(PATH, json={**CHAT, "ignore_eos": True})
    assert response.status_code == 400
    assert "<|im_end|>" in response.json()["error"]["message"]
