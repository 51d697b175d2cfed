"""Conversations that are too long: what is dropped of them, and that this is told."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.dialects.responses.truncation import list_droppable
from tests.scripted_model import scripted
from tests.server.running_server import Json, needs_own_engine, running

LENGTH = 20_000
RESPONSES = "/v1/responses"
FLAT_PING = {"type": "function", "name": "ping", "parameters": {"type": "object"}}


def says(role: str, text: str) -> Json:
    return {"role": role, "content": text}


def list_called(id: str, result: str) -> list[Json]:
    """A call, and its result."""
    call = {"type": "function_call", "call_id": id, "name": "ping", "arguments": "{}"}
    return [call, {"type": "function_call_output", "call_id": id, "output": result}]


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    with running(scripted("Hi.")) as client:
        yield client


def find_tokens(client: httpx.Client, body: Json) -> int:
    return client.post(f"{RESPONSES}/input_tokens", json=body).json()["input_tokens"]


# A byte is a token.
OLD: list[Json] = [
    says("user", "a" * 6_000),
    says("assistant", "b" * 3_000),
    says("user", "e" * 3_000),
]
LONG: Json = {
    "instructions": "KEPT HEAD.",
    "input": [*OLD, *list_called("call_1", "c" * 6_000), says("user", "KEPT TAIL.")],
    "tools": [FLAT_PING],
}
ASKED: Json = {**LONG, "input": [*LONG["input"], *list_called("call_2", "d" * 4_000)]}


@needs_own_engine
def test_the_oldest_items_are_left_out_if_that_is_asked_for(plain: httpx.Client) -> None:
    refused = plain.post(RESPONSES, json=ASKED)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    body = {**ASKED, "truncation": "auto"}
    answer = plain.post(RESPONSES, json=body)
    assert answer.status_code == 200
    assert answer.headers["X-Dropped-Messages"] == "2"
    response = answer.json()
    assert response["constrained"]["dropped_messages"] == 2
    assert response["truncation"] == "auto"
    tokens = response["usage"]["input_tokens"]
    assert tokens <= LENGTH * 3 // 4
    shorter = {**ASKED, "input": ASKED["input"][2:]}
    assert tokens == find_tokens(plain, shorter) == find_tokens(plain, body)
    # A short reply needs less room.
    answer = plain.post(RESPONSES, json={**body, "max_output_tokens": 20})
    assert answer.headers["X-Dropped-Messages"] == "1"


@needs_own_engine
def test_what_is_never_dropped_may_be_too_long(plain: httpx.Client) -> None:
    body = {"input": [*OLD, says("user", "x" * LENGTH)], "truncation": "auto"}
    error: Any = plain.post(RESPONSES, json=body).json()["error"]
    assert error["code"] == "context_length_exceeded"


def test_nothing_is_dropped_without_need(plain: httpx.Client) -> None:
    answer = plain.post(RESPONSES, json={"input": OLD[:1], "truncation": "auto"})
    assert "X-Dropped-Messages" not in answer.headers
    assert "constrained" not in answer.json()


roles = st.sampled_from(["system", "developer", "user", "assistant", "tool"])


@given(st.lists(roles, max_size=12))
def test_what_is_kept_and_what_goes_together(given: list[str]) -> None:
    messages = [{"role": role} for role in given]
    parts = [*list_droppable(messages)]
    dropped = [number for part in parts for number in part]
    assert dropped == sorted(set(dropped))
    for part in parts:
        assert all(given[number] == "tool" for number in part[1:])
        assert given[part[0]] not in ("system", "developer")
        assert part.stop < len(given)
        assert given[part.stop] != "tool"  # no result stays without its call
    users = [number for number, role in enumerate(given) if role == "user"]
    assert not users or users[-1] not in dropped
