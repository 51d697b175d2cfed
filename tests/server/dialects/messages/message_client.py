"""What the tests of Messages share: asking, and the order that events have to keep."""

from typing import Any

import httpx

from server.dialects.messages.reply import fold
from tests.scripted_model import TURN
from tests.server.running_server import Json, stream

PATH = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
HELLO: list[Json] = [{"role": "user", "content": "Hello"}]
MARK: Json = {"cache_control": {"type": "ephemeral"}}
PING_TOOL: Json = {"name": "ping", "input_schema": {"type": "object", "properties": {}}}
PAINT: Json = {
    "name": "paint",
    "description": "Paints.",
    "input_schema": {
        "type": "object",
        "properties": {"color": {"enum": ["red", "green"]}, "glossy": {"type": "boolean"}},
        "required": ["color", "glossy"],
    },
}
BASE: Json = {"messages": HELLO, "max_tokens": 500, "model": "demo"}
BEHIND_THINKING = TURN + rb"(?:<think>\n(?:\n</think>\n\n)?)?"
"""What a prompt has in front of a turn, where its template may open or close the reasoning."""
FIELDS = {"text": "text", "thinking": "thinking", "signature": "signature"}


def ask(client: httpx.Client, **body: Any) -> Json:
    """A whole message."""
    response = client.post(PATH, json={**BASE, **body})
    assert response.status_code == 200, response.text
    return response.json()


def events_of(client: httpx.Client, **body: Any) -> list[Json]:
    """The events of a streamed message, which are checked for their order."""
    events = stream(client, PATH, {**BASE, **body})
    assert all(name == data["type"] for name, data in events)
    told = [data for _, data in events]
    check_order(told)
    return told


def refuse(client: httpx.Client, path: str = PATH, **body: Any) -> str:
    """The message of a request that is refused with 400."""
    response = client.post(path, json={**BASE, **body})
    assert response.status_code == 400, response.text
    error = response.json()
    assert error["type"] == "error"
    assert error["error"]["type"] == "invalid_request_error"
    return error["error"]["message"]


def count(client: httpx.Client, **body: Any) -> int:
    """What `count_tokens` says."""
    asked = {key: value for key, value in {**BASE, **body}.items() if key != "max_tokens"}
    response = client.post(COUNT, json=asked)
    assert response.status_code == 200, response.text
    assert [*response.json()] == ["input_tokens"]
    return response.json()["input_tokens"]


def total(message: Json) -> int:
    """All tokens of the prompt."""
    usage = message["usage"]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    assert all(type(usage[name]) is int and usage[name] >= 0 for name in names), usage
    return sum(usage[name] for name in names)


def lasting(message: Json) -> Json:
    """What two replies to the same request have in common."""
    kept = {key: value for key, value in message.items() if key not in ("id", "usage")}
    return {**kept, "total": total(message), "out": message["usage"]["output_tokens"]}


def same(client: httpx.Client, **body: Any) -> Json:
    """The message, which is the same streamed and not."""
    message = ask(client, **body)
    assert lasting(fold(events_of(client, **body))) == lasting(message)
    return message


def check_order(events: list[Json]) -> None:
    """A block is opened, added to, and closed before the next one is opened."""
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    index, block = 0, None
    for event in events[2:-2]:
        assert event["type"] == "ping" or event["index"] == index, event
        match event:
            case {"type": "content_block_start", "content_block": started}:
                assert block is None, event
                block = started["type"]
                assert not any(started.get(name) for name in (*FIELDS, "input")), started
            case {"type": "content_block_delta", "delta": delta}:
                check_delta(block, delta)
            case {"type": "content_block_stop"}:
                assert block is not None, event
                index, block = index + 1, None
            case _:
                assert event["type"] == "ping", event
    assert block is None


def check_delta(block: str | None, delta: Json) -> None:
    """More of a block, which is of its kind, and not empty."""
    kinds = {
        "text": {"text_delta": "text"},
        "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
        "tool_use": {"input_json_delta": "partial_json"},
        "server_tool_use": {"input_json_delta": "partial_json"},
    }
    name = kinds[block or "none"][delta["type"]]
    assert set(delta) == {"type", name}
    assert isinstance(delta[name], str)
    assert delta[name]
