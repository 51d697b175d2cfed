"""In every dialect, a reply has a call once, and that of a repeatable tool any number of times."""

from typing import Any

import pytest

from tests.scripted_model import OPENED, scripted
from tests.server.running_server import running
from tests.templates import hermes_call

Json = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"sides": {"type": "integer"}}}
SCRIPT = "\n".join([hermes_call("roll", '{"sides": 6}')] * 3)
HELLO = [{"role": "user", "content": "Roll!"}]


def ask_chat(client: Any, fields: Json) -> int:
    function = {"name": "roll", "parameters": SCHEMA, **fields}
    body = {
        "messages": HELLO,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": True,
    }
    reply = client.post("/v1/chat/completions", json=body).json()
    return len(reply["choices"][0]["message"]["tool_calls"])


def ask_responses(client: Any, fields: Json) -> int:
    body = {
        "input": HELLO,
        "tools": [{"type": "function", "name": "roll", "parameters": SCHEMA, **fields}],
        "tool_choice": "required",
        "parallel_tool_calls": True,
    }
    reply = client.post("/v1/responses", json=body).json()
    return len(reply["output"])


def ask_messages(client: Any, fields: Json) -> int:
    body = {
        "messages": HELLO,
        "max_tokens": 400,
        "tools": [{"name": "roll", "input_schema": SCHEMA, **fields}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": False},
    }
    reply = client.post("/v1/messages", json=body).json()
    return len(reply["content"])


def ask_ollama(client: Any, fields: Json) -> int:
    function = {"name": "roll", "parameters": SCHEMA, **fields}
    body = {
        "messages": HELLO,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "stream": False,
    }
    reply = client.post("/api/chat", json=body).json()
    return len(reply["message"]["tool_calls"])


@pytest.mark.parametrize("count", [ask_chat, ask_responses, ask_messages, ask_ollama])
def test_only_calls_of_a_repeatable_tool_are_repeated(count: Any) -> None:
    with running(scripted(SCRIPT, turn=OPENED)) as client:
        assert count(client, {}) == 1
        assert count(client, {"repeatable": False}) == 1
        assert count(client, {"repeatable": None}) == 1
        assert count(client, {"repeatable": True}) == 3
