"""llama-server's `return_progress`, `timings_per_token` and `ignore_eos`, in both dialects."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.scripted_model import scripted
from tests.server.running_server import Json, needs_own_engine, running, stream
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


def chunks_of(client: httpx.Client, path: str, body: Json, **more: Any) -> list[Json]:
    return [data for _, data in stream(client, path, {**body, **more})]


@dialects
def test_chunks_tell_how_much_of_the_prompt_is_read(
    client: httpx.Client, path: str, body: Json
) -> None:
    chunks = chunks_of(client, path, body, cache_prompt=False, return_progress=True)
    told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    read = [progress["processed"] for progress in told]
    assert read == sorted(set(read))  # it grows
    assert read[0] == told[0]["cache"] == 0
    assert len(read) >= 3
    assert read[-1] == told[-1]["total"] > len(LONG)
    assert told[-1]["time_ms"] >= told[0]["time_ms"] >= 0
    is_told = ["prompt_progress" in chunk for chunk in chunks]
    first = is_told.index(True)
    last = len(is_told) - is_told[::-1].index(True)
    assert all(is_told[first:last])  # all of it in front of the reply


@dialects
def test_what_is_cached_counts_as_read(client: httpx.Client, path: str, body: Json) -> None:
    salted = {**body, "cache_salt": "twice"}
    chunks_of(client, path, salted)
    chunks = chunks_of(client, path, salted, return_progress=True)
    told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    assert told[0]["processed"] == told[0]["cache"] > 0
    assert told[-1]["processed"] == told[-1]["total"]


@dialects
def test_every_chunk_of_the_reply_has_timings(client: httpx.Client, path: str, body: Json) -> None:
    chunks = chunks_of(client, path, body, timings_per_token=True)
    timed = [chunk["timings"] for chunk in chunks if "timings" in chunk]
    has_text = [c for c in chunks if c["choices"][0].get("text") or _has_content(c)]
    assert has_text
    assert all("timings" in chunk for chunk in has_text)
    counts = [timings["predicted_n"] for timings in timed]
    assert counts == sorted(counts)
    assert counts[-1] == len("Hello")
    assert not any("prompt_progress" in chunk for chunk in chunks)


def _has_content(chunk: Json) -> bool:
    return bool(chunk["choices"][0].get("delta", {}).get("content"))


@dialects
def test_chunks_say_nothing_that_nobody_asked_for(
    client: httpx.Client, path: str, body: Json
) -> None:
    for chunk in chunks_of(client, path, body):
        assert "timings" not in chunk
        assert "prompt_progress" not in chunk


@dialects
def test_a_whole_reply_has_timings(client: httpx.Client, path: str, body: Json) -> None:
    body = {**body, "return_progress": True, "timings_per_token": True}
    reply = client.post(path, json=body).json()
    assert reply["timings"]["predicted_n"] == len("Hello")
    assert "prompt_progress" not in reply
    assert "constrained" not in reply


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
