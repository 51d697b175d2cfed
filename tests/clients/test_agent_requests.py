"""The requests of agents, as `make test-clients` has met them, without npm: what Codex 0.169,
Claude Code 2.1 and opencode 1.18 send, cut to its shape, with the result of a call.

Each asks with its tools, gets a call, and asks again with the result.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from constrained.prompt.template.conversation_forms import ConversationForm
from tests.clients.programs import agent_tasks
from tests.clients.scripted_server import make_model
from tests.server.running_server import read_events, running

Json = dict[str, Any]
DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
USER = {"role": "user", "content": agent_tasks.QUESTION}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(make_model(sequences=1)) as client:
        yield client


def schema(required: list[str] | None = None, **properties: Json) -> Json:
    body: Json = {"type": "object", "properties": properties}
    if required is not None:
        body["required"] = required
    return body


TEXT = {"type": "string", "description": "A text."}
CLOSED = {"additionalProperties": False}


def text_item(role: str, *texts: str) -> Json:
    parts = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "id": f"msg_{role}", "role": role, "content": parts}


def codex_function(name: str, parameters: Json) -> Json:
    given = {"parameters": {**parameters, **CLOSED}, "strict": False}
    return {"type": "function", "name": name, "description": "A tool.", **given}


CODEX: Json = {
    "model": "demo",
    "stream": True,
    "input": [
        text_item("developer", "You are an agent."),
        text_item("developer", "Skills.", "Permissions."),
        text_item("user", "The folder is /tmp."),
        text_item("user", agent_tasks.QUESTION),
    ],
    "tools": [
        codex_function(
            "exec_command",
            schema(
                ["cmd"],
                cmd=TEXT,
                login={"type": "boolean"},
                max_output_tokens={"type": "number"},
                prefix_rule={"type": "array", "items": {"type": "string"}},
                sandbox_permissions={"type": "string", "enum": ["use_default", "escalated"]},
            ),
        ),
        codex_function("get_goal", schema()),
        {
            "type": "namespace",
            "name": "multi_agent_v1",
            "description": "Further agents.",
            "tools": [codex_function("close_agent", schema(["target"], target=TEXT))],
        },
        {"type": "web_search", "external_web_access": True},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "01a21021",
    "client_metadata": {"session_id": "01a21021"},
}


def test_codex(client: httpx.Client) -> None:
    headers = {"accept": "text/event-stream", "session-id": "01a21021", "originator": "codex_exec"}

    def ask(items: list[Json]) -> list[Json]:
        body = {**CODEX, "input": items}
        with client.stream("POST", "/v1/responses", json=body, headers=headers) as response:
            assert response.status_code == 200
            (*_, (_, last)) = read_events(response)
        assert last["type"] == "response.completed", last
        notes = last["response"]["constrained"]
        assert notes == {
            "skipped_tools": [{"type": "web_search", "where": "/tools/3"}],
            "message_forms": [ConversationForm.JOINED_SYSTEM],
        }
        return last["response"]["output"]

    [call] = ask(CODEX["input"])
    assert (call["type"], call["name"]) == ("function_call", "exec_command")
    assert json.loads(call["arguments"]) == {"cmd": agent_tasks.COMMAND}
    output = f"Process exited with code 0\nOutput:\n{agent_tasks.CODE}\n"
    result = {
        "type": "function_call_output",
        "id": "fco_1",
        "call_id": call["call_id"],
        "output": output,
    }
    [message] = ask([*CODEX["input"], call, result])
    assert message["content"][0]["text"] == agent_tasks.CODE


CACHED = {"cache_control": {"type": "ephemeral"}}


def claude_tool(name: str, parameters: Json) -> Json:
    return {
        "name": name,
        "description": "A tool.",
        "input_schema": {**DRAFT, **parameters, **CLOSED},
    }


CLAUDE: Json = {
    "model": "demo",
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>It is a day.</system-reminder>"},
                {"type": "text", "text": agent_tasks.QUESTION},
            ],
        },
        {"role": "system", "content": "Kinds of agents."},
    ],
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1;"},
        {"type": "text", "text": "You are an agent.", **CACHED},
        {"type": "text", "text": "Be kind.", **CACHED},
    ],
    "tools": [
        claude_tool(
            "Bash",
            schema(
                ["command"],
                command=TEXT,
                timeout={"type": "number", "maximum": 600_000, "exclusiveMinimum": 0},
                description=TEXT,
                run_in_background={"type": "boolean", "default": False},
            ),
        ),
        claude_tool(
            "TaskUpdate",
            schema(
                ["taskId"],
                taskId={"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[0-9]+$"},
                status={
                    "anyOf": [
                        {"type": "string", "enum": ["pending", "completed"]},
                        {"type": "string", "const": "deleted"},
                    ]
                },
                metadata={
                    "type": "object",
                    "propertyNames": {"type": "string"},
                    "additionalProperties": {},
                },
                addBlocks={"type": "array", "maxItems": 10, "items": {"type": "string"}},
                url={"type": "string", "format": "uri"},
            ),
        ),
    ],
    "metadata": {"user_id": '{"device_id": "1504df", "account_uuid": ""}'},
    "max_tokens": 32_000,
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "stream": True,
}


def test_claude_code(client: httpx.Client) -> None:
    betas = "claude-code-20250219,interleaved-thinking-2025-05-14,effort-2025-11-24"
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": betas}

    def ask(messages: list[Json]) -> list[Json]:
        body = {**CLAUDE, "messages": messages}
        path = "/v1/messages?beta=true"
        with client.stream("POST", path, json=body, headers=headers) as response:
            assert response.status_code == 200
            events = [event for _, event in read_events(response)]
        notes = events[0]["message"]["constrained"]
        assert notes == {
            "ignored_fields": ["context_management"],
            "message_forms": [ConversationForm.SYSTEM_AS_USER],
        }
        return read_blocks(events)

    thought, call = ask(CLAUDE["messages"])
    assert thought["thinking"] == "I see."
    assert (call["type"], call["name"]) == ("tool_use", "Bash")
    assert call["input"]["command"] == agent_tasks.COMMAND
    answer = {"type": "tool_result", "tool_use_id": call["id"], "is_error": False, **CACHED}
    result = {**answer, "content": agent_tasks.CODE}
    messages = [
        *CLAUDE["messages"],
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [result]},
    ]
    blocks = ask(messages)
    assert blocks[-1] == {"type": "text", "text": agent_tasks.CODE}


def read_blocks(events: list[Json]) -> list[Json]:
    """The blocks of a message, as clients put them together."""
    blocks: list[Json] = []
    text = ""
    for event in events:
        match event:
            case {"type": "content_block_start", "content_block": block}:
                blocks.append(dict(block))
                text = ""
            case {"type": "content_block_delta", "delta": {"type": kind, **fields}}:
                [(name, value)] = fields.items()
                if kind == "input_json_delta":
                    text += value
                    continue
                blocks[-1][name] += value
            case {"type": "content_block_stop"} if text:
                blocks[-1]["input"] = json.loads(text)
            case _:
                pass
    return blocks


def opencode_tool(name: str, parameters: Json) -> Json:
    function = {"name": name, "description": "A tool.", "parameters": {**DRAFT, **parameters}}
    return {"type": "function", "function": function}


WHOLE = {"type": "integer", "maximum": 2**53 - 1}
OPENCODE: Json = {
    "model": "demo",
    "max_tokens": 1000,
    "messages": [{"role": "system", "content": "You are an agent."}, USER],
    "tools": [
        opencode_tool(
            "bash",
            schema(
                ["command"],
                command=TEXT,
                timeout={**WHOLE, "minimum": 1 - 2**53, "exclusiveMinimum": 0},
                workdir=TEXT,
            ),
        ),
        opencode_tool(
            "todowrite",
            schema(
                ["todos"],
                todos={
                    "type": "array",
                    "items": schema(
                        ["content", "status"],
                        content=TEXT,
                        status={"type": "string", "enum": ["pending", "completed"]},
                    ),
                },
                limit={**WHOLE, "minimum": 0, "default": 10},
            ),
        ),
    ],
    "tool_choice": "auto",
    "stream": True,
    "stream_options": {"include_usage": True},
}


def test_opencode(client: httpx.Client) -> None:
    def ask(body: Json) -> Json:
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            assert response.status_code == 200
            chunks = [chunk for _, chunk in read_events(response)]
        assert not any("constrained" in chunk for chunk in chunks)
        assert chunks[-1]["usage"]["completion_tokens"] > 0
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
        content = "".join(delta.get("content") or "" for delta in deltas)
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        arguments = "".join(call["function"]["arguments"] for call in calls)
        ids = [call["id"] for call in calls if "id" in call]
        return {"content": content, "ids": ids, "arguments": arguments}

    titled = {name: OPENCODE[name] for name in ("model", "max_tokens", "stream", "stream_options")}
    title = {"role": "system", "content": "Write a title."}
    assert ask({**titled, "messages": [title, USER]})["content"] == "Notes"
    called = ask(OPENCODE)
    assert json.loads(called["arguments"]) == {"command": agent_tasks.COMMAND}
    [id] = called["ids"]
    function = {"name": "bash", "arguments": called["arguments"]}
    calls = [{"id": id, "type": "function", "function": function}]
    messages = [
        *OPENCODE["messages"],
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": id, "content": f"{agent_tasks.CODE}\n"},
    ]
    assert ask({**OPENCODE, "messages": messages})["content"] == agent_tasks.CODE
