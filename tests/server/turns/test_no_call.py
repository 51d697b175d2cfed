"""In every dialect, a reply says why it may have no call, where small models hardly call."""

from typing import Any

import pytest

from constrained.prompt.format_selection.generic import CHATML
from tests.scripted_model import OPENED, scripted
from tests.server.running_server import running
from tests.templates import HERMES, PING, hermes_call

Json = dict[str, Any]
HELLO: list[Json] = [{"role": "user", "content": "Ping!"}]
PLAIN = {"name": "ping", "input_schema": {"type": "object"}}
CHAT = {"messages": HELLO, "tools": [PING]}
BODIES: dict[str, Json] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {
        "input": HELLO,
        "tools": [{"type": "function", "name": "ping", "parameters": {"type": "object"}}],
    },
    "/v1/messages": {"messages": HELLO, "max_tokens": 100, "tools": [PLAIN]},
    "/api/chat": CHAT | {"stream": False},
}
CALLED: list[Json] = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "pong"},
]


def ask(body: Json, path: str = "/v1/chat/completions", script: str = "Hi.", **model: Any) -> Json:
    """Returns the notes of the reply."""
    model.setdefault("source", CHATML)
    with running(scripted(script, **model)) as client:
        response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json().get("constrained", {})


@pytest.mark.parametrize("path", BODIES)
def test_a_reply_without_a_call_says_what_to_do(path: str) -> None:
    assert "use required" in ask(BODIES[path], path)["no_call"]


@pytest.mark.parametrize("path", BODIES)
def test_a_stream_says_so_at_its_end(path: str) -> None:
    with running(scripted("Hi.", source=CHATML)) as client:
        text = client.post(path, json=BODIES[path] | {"stream": True}).text
    said = [line for line in text.splitlines() if '"no_call"' in line]
    assert len(said) == 1
    assert "use required" in said[0]


@pytest.mark.parametrize(
    ("body", "script"),
    [
        (CHAT, hermes_call("ping")),
        (CHAT | {"tool_choice": "required"}, hermes_call("ping")),
        (CHAT | {"tool_choice": "none"}, "Hi."),
        ({"messages": HELLO}, "Hi."),
        ({"messages": HELLO + CALLED, "tools": [PING]}, "Pong."),
    ],
    ids=["call", "required", "none", "no tools", "answer after a call"],
)
def test_nothing_is_said_where_no_call_is_missing(body: Json, script: str) -> None:
    assert "no_call" not in ask(body, script=script)


def test_nothing_is_said_where_the_template_knows_tools() -> None:
    assert "no_call" not in ask(CHAT, source=HERMES, turn=OPENED)
