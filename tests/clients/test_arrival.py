"""A message of an agent that does not arrive is noticed."""

from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from tests.clients.arrival import SentTexts, has_all, list_texts

CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": " two\n"}, {"type": "image_url"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": "{}"}}]},
        {"role": "tool", "content": "three"},
    ]
}
MESSAGES: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "two"},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"text": "three"}]}]},
    ],
    "system": [{"type": "text", "text": "one"}],
}
RESPONSES: dict[str, Any] = {
    "input": [
        {"type": "reasoning", "content": [{"text": "Hm."}]},
        {"role": "user", "content": "two"},
        {"type": "function_call_output", "output": "three"},
    ],
    "instructions": "one",
}
BODIES = (CHAT, MESSAGES, RESPONSES)


@pytest.mark.parametrize("body", BODIES)
def test_texts_of_all_dialects(body: dict[str, Any]) -> None:
    assert list_texts(body) == ["one", "two", "three"]


def test_their_order_counts() -> None:
    assert has_all("one, two", ["one", "two"])
    assert not has_all("two, one", ["one", "two"])
    assert not has_all("one", ["one", "one"])


async def read(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await PlainTextResponse("")(scope, receive, send)


def test_a_prompt_answers_one_request() -> None:
    sent = SentTexts()
    client = TestClient(sent.watch(read))
    assert not sent.arrive("one two three")
    client.post("/", json=CHAT)
    client.post("/", json=CHAT)
    assert not sent.arrive("one three")
    for prompt in ("one two three", "one two three", "one two three four"):
        assert sent.arrive(prompt)
    assert not sent.arrive("one two three five")
