"""Replies and events of streams as the types of the SDKs have them, strictly: the SDKs themselves
read whatever comes."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from anthropic.types import Message, ModelInfo, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseItemList, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.scripted_model import OPENED, scripted
from tests.server.running_server import Json, running, stream
from tests.templates import OPEN, hermes_call

WEATHER: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FLAT: Json = {"name": "get_weather", "description": "The weather"}
TURN = "I wonder.\n</think>\n\nI look." + hermes_call("get_weather", '{"city": "Paris"}')
HELLO = [{"role": "user", "content": "Hello"}]
RESPONSES = "/v1/responses"
INCLUDE = ["message.output_text.logprobs", "reasoning.encrypted_content"]
CHAT_BODY: Json = {
    "model": "demo",
    "messages": HELLO,
    "max_tokens": 200,
    "logprobs": True,
    "tools": [{"type": "function", "function": {**FLAT, "parameters": WEATHER}}],
}
RESPONSES_BODY: Json = {
    "model": "demo",
    "input": "Hello",
    "include": INCLUDE,
    "max_output_tokens": 200,
    "tools": [{**FLAT, "type": "function", "parameters": WEATHER}, {"type": "shell"}],
}
MESSAGES_BODY: Json = {
    "model": "demo",
    "messages": HELLO,
    "max_tokens": 200,
    "thinking": {"type": "enabled", "budget_tokens": 50},
    "tools": [{**FLAT, "input_schema": WEATHER}],
}
ASKED: list[tuple[str, Json, Any, Any]] = [
    ("/v1/chat/completions", CHAT_BODY, ChatCompletion, ChatCompletionChunk),
    (RESPONSES, RESPONSES_BODY, Response, ResponseStreamEvent),
    ("/v1/messages", MESSAGES_BODY, Message, RawMessageStreamEvent),
    ("/v1/messages?beta=true", MESSAGES_BODY, BetaMessage, BetaRawMessageStreamEvent),
]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(scripted(TURN, source=OPEN, turn=OPENED)) as served:
        yield served


def check(kind: Any, value: Any) -> None:
    TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(("path", "body", "reply", "event"), ASKED)
def test_a_turn_with_reasoning_text_and_a_call(
    client: httpx.Client, path: str, body: Json, reply: Any, event: Any
) -> None:
    answered = client.post(path, json=body)
    assert answered.status_code == 200, answered.text
    assert "I look." in answered.text
    assert "Paris" in answered.text
    check(reply, answered.json())
    kinds = TypeAdapter(event)
    for _, data in stream(client, path, body):
        if data.get("type") != "ping":  # the SDK skips it
            kinds.validate_python(data)


def test_what_is_asked_later(client: httpx.Client) -> None:
    id = client.post(RESPONSES, json=RESPONSES_BODY).json()["id"]
    for path, kind in (
        (f"{RESPONSES}/{id}", Response),
        (f"{RESPONSES}/{id}/input_items", ResponseItemList),
        ("/v1/models/demo", Model),
        ("/v1/models/demo", ModelInfo),
    ):
        check(kind, client.get(path).json())
