"""Tools of MCP servers in Responses: this server carries their calls out."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from server.hosting.mcp.forced_approval import ForcedApproval
from server.hosting.mcp.mcp_pool import McpPool
from server.settings import Settings
from tests.constrained.agent.mcp.raw_command import raw
from tests.scripted_model import scripted
from tests.server.dialects.messages.message_client import HELLO
from tests.server.dialects.responses.response_client import FLAT_PING, RESPONSES, lasting, refuse
from tests.server.running_server import Json, needs_own_engine, running, stream, wait_until
from tests.templates import hermes_call

LONG = 1000  # tokens: a byte is one
ECHO = hermes_call("raw__echo", '{"text": "hi"}')
LOOK = hermes_call("raw__look", '{"text": "there"}')
MCP: Json = {"type": "mcp", "server_label": "raw", "require_approval": "never"}


def serve(*texts: str, settings: Settings | None = None) -> Any:
    """A server with the handwritten MCP server, whose model writes these turns."""
    return running(scripted(*texts, "Done."), settings, mcp=McpPool([raw()], timeout=20))


def ask(client: httpx.Client, input: Any = "Hello", **body: Any) -> Json:
    asked = {"input": input, "max_output_tokens": LONG, "temperature": 0, **body}
    response = client.post(RESPONSES, json=asked)
    assert response.status_code == 200, response.text
    return response.json()


def kinds(body: Json) -> list[str]:
    return [item["type"] for item in body["output"]]


@pytest.fixture(scope="module")
def parallel() -> Iterator[httpx.Client]:
    with serve(f"{ECHO}\n{LOOK}") as client:
        yield client


@needs_own_engine
def test_calls_are_carried_out_and_the_model_goes_on(parallel: httpx.Client) -> None:
    body = ask(parallel, tools=[MCP])
    assert kinds(body) == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    listed, echo, look, message = body["output"]
    assert [tool["name"] for tool in listed["tools"]][:2] == ["echo", "look"]
    assert echo == {
        "type": "mcp_call",
        "id": echo["id"],
        "approval_request_id": None,
        "server_label": "raw",
        "name": "echo",
        "arguments": '{"text": "hi"}',
        "output": "echo: hi",
        "error": None,
        "status": "completed",
    }
    assert look["output"] == "look: there"
    assert message["content"][0]["text"] == "Done."
    assert (body["status"], "constrained" in body) == ("completed", False)
    # The next request finds all of it in the cache: its prompt is the one that the run has written.
    again = ask(parallel, "And now?", tools=[MCP], previous_response_id=body["id"])
    assert kinds(again) == ["message"]
    last = body["usage"]["input_tokens_details"]
    cached = again["usage"]["input_tokens_details"]["cached_tokens"]
    assert cached >= last["cached_tokens"]
    assert cached > again["usage"]["input_tokens"] - 100


def test_a_stream_has_the_events_of_openai(parallel: httpx.Client) -> None:
    whole = ask(parallel, tools=[MCP])
    body = {"input": "Hello", "max_output_tokens": LONG, "temperature": 0, "tools": [MCP]}
    events = [event for _, event in stream(parallel, RESPONSES, body)]
    assert lasting(events[-1]["response"]["output"][1:]) == lasting(whole["output"][1:])
    of_list = [event["type"] for event in events if event.get("output_index") == 0]
    assert of_list == [
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
    ]
    of_call = [event["type"] for event in events if event.get("output_index") == 1]
    assert list(dict.fromkeys(of_call)) == [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
    ]
    deltas = [event["delta"] for event in events if event["type"].endswith("arguments.delta")]
    assert "".join(deltas) == '{"text": "hi"}{"text": "there"}'


def test_the_package_of_openai_reads_it(parallel: httpx.Client) -> None:
    tools: Any = [MCP]
    with OpenAI(base_url=f"{parallel.base_url}/v1", api_key="none") as client:
        events = list(client.responses.create(model="demo", input="Hi", tools=tools, stream=True))
        body = client.responses.create(model="demo", input="Hi", tools=tools)
    assert "ResponseMcpCallCompletedEvent" in {type(event).__name__ for event in events}
    assert [type(item).__name__ for item in body.output[:2]] == ["McpListTools", "McpCall"]


@needs_own_engine
def test_calls_of_the_client_are_left_to_it() -> None:
    with serve(f"{ECHO}\n{hermes_call('ping')}") as client:
        tools = [MCP, FLAT_PING]
        body = ask(client, tools=tools)
        assert kinds(body) == ["mcp_list_tools", "mcp_call", "function_call"]
        assert body["output"][1]["output"] == "echo: hi"
        output = {"type": "function_call_output", "call_id": body["output"][2]["call_id"]}
        follows = {"tools": tools, "previous_response_id": body["id"]}
        answered = ask(client, [{**output, "output": "pong"}], **follows)
        assert kinds(answered) == ["message"]


def test_a_server_that_dies_is_an_error_of_the_call() -> None:
    with serve(hermes_call("raw__die"), ECHO) as client:
        body = ask(client, tools=[MCP])
        died, echo = body["output"][1:3]
        assert (died["status"], died["output"]) == ("failed", None)
        assert "has ended during die" in died["error"]["content"][0]["text"]
        assert echo["output"] == "echo: hi"
        assert body["status"] == "completed"


def test_a_client_that_leaves_cancels_the_call(tmp_path: Path) -> None:
    path = tmp_path / "ended"
    arguments = json.dumps({"text": str(path)})
    with serve(hermes_call("raw__hang", arguments)) as client:
        body = {"input": "Hi", "tools": [MCP], "stream": True, "temperature": 0}
        with client.stream("POST", RESPONSES, json=body) as response:
            for line in response.iter_lines():
                if "mcp_call_arguments.done" in line:
                    wait_until(path.exists)  # the call is under way
                    break
        wait_until(lambda: path.read_text() == "cancelled")
        assert ask(client, tools=[{**MCP, "allowed_tools": []}, FLAT_PING])


def test_limits() -> None:
    settings = Settings(max_tool_steps=3, max_tool_output=4)
    with running(
        scripted(ECHO, LOOK, "Well."), settings, mcp=McpPool([raw()], timeout=20)
    ) as client:
        body = ask(client, tools=[MCP])
        assert kinds(body) == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
        assert body["output"][1]["output"] == "echo\n[cut here: 4 of 8 characters]"
        body = ask(client, tools=[MCP], max_tool_calls=1)
        assert kinds(body) == ["mcp_list_tools", "mcp_call", "message"]
        assert refuse(client, tools=[MCP], max_tool_calls=0)["param"] == "/max_tool_calls"


def test_repetition_is_counted_once_for_all_turns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "constrained.server")
    call = {"type": "function_call", "name": "ping", "arguments": "{}"}
    items: list[Json] = [{"role": "user", "content": "Hi"}]
    for number in range(3):
        items.append({**call, "call_id": f"c{number}"})
        output = {"type": "function_call_output", "call_id": f"c{number}", "output": "pong"}
        items.append(output)
    with serve("", "", "", ECHO) as client:  # a script for each turn of the conversation
        body = ask(client, items, tools=[MCP, FLAT_PING])
        assert kinds(body) == ["mcp_list_tools", "mcp_call", "message"]
        assert body["constrained"]["repeated_calls"] == [{"name": "ping", "count": 3}]
    warned = [record.getMessage() for record in caplog.records]
    assert sum("the same call of ping" in message for message in warned) == 1


def test_tools_of_servers_count_as_tools() -> None:
    with serve(settings=Settings(max_tools=9)) as client:
        error = refuse(client, tools=[FLAT_PING, MCP])
        assert (error["code"], error["param"]) == ("too_many_tools", "/tools")
        wish = {"mcp_servers": [{"type": "url", "url": "mcp:raw", "name": "raw"}]}
        ping = {"name": "ping", "input_schema": {"type": "object"}}
        hello = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
        count = "/v1/messages/count_tokens"
        assert client.post(count, json={**hello, **wish}).status_code == 200
        assert client.post(count, json={**hello, **wish, "tools": [ping]}).status_code == 400


def test_what_may_be_called_is_the_clients_choice(parallel: httpx.Client) -> None:
    only: Json = {**MCP, "allowed_tools": {"read_only": True}}
    listed = ask(parallel, tools=[only], tool_choice="none")["output"][0]
    assert [tool["name"] for tool in listed["tools"]] == ["look"]
    for choice in (
        {"type": "mcp", "server_label": "raw", "name": "look"},
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "mcp", "server_label": "raw"}],
        },
    ):
        body = ask(parallel, tools=[only, FLAT_PING], tool_choice=choice)
        assert body["output"][1]["name"] == "look"


@pytest.mark.parametrize(
    ("tool", "where"),
    [
        ({"server_label": "other"}, "/tools/0/server_label"),
        ({"server_url": "http://169.254.169.254/"}, "/tools/0/server_url"),
        ({"headers": {"a": "b"}}, "/tools/0/headers"),
        ({"authorization": "secret"}, "/tools/0/authorization"),
        ({"allowed_tools": "all"}, "/tools/0/allowed_tools"),
        ({"allowed_tools": [5]}, "/tools/0/allowed_tools/tool_names"),
        ({"require_approval": "always"}, "/tools/0/require_approval"),
        ({"require_approval": None}, "/tools/0/require_approval"),
        ({"require_approval": {"never": {"read_only": True}}}, "/tools/0/require_approval"),
    ],
)
def test_what_cannot_be_is_refused(parallel: httpx.Client, tool: Json, where: str) -> None:
    assert refuse(parallel, tools=[{**MCP, **tool}])["param"] == where


def test_the_address_of_a_command_can_be_written(parallel: httpx.Client) -> None:
    assert ask(parallel, tools=[{**MCP, "server_url": "mcp:raw"}], tool_choice="none")
    assert refuse(parallel, tools=[MCP, MCP])["param"] == "/tools/1"


def test_without_servers_there_is_no_such_tool(plain: httpx.Client) -> None:
    error = refuse(plain, tools=[MCP])
    assert (error["code"], error["param"]) == ("unknown_mcp_server", "/tools/0/server_label")
    assert "--mcp" in error["message"]
    chat = {"messages": [{"role": "user", "content": "Hi"}], "tools": [MCP]}
    error = plain.post("/v1/chat/completions", json=chat).json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_tool", "/tools/0/type")


@pytest.mark.parametrize(("approval", "kept"), [("writes", {"echo"}), ("all", {"echo", "look"})])
def test_what_the_operator_wants_approved_is_refused(approval: str, kept: set[str]) -> None:
    """`look` says `readOnlyHint`."""
    pool = McpPool([raw()], timeout=20, approval=ForcedApproval(approval))
    with running(scripted(LOOK, "Done."), mcp=pool) as client:
        error = refuse(client, tools=[MCP])
        assert (error["code"], error["param"]) == ("approval_needed", "/tools/0")
        only = {**MCP, "allowed_tools": ["look"]}
        if "look" in kept:
            assert refuse(client, tools=[only])["code"] == "approval_needed"
        else:
            assert kinds(ask(client, tools=[only])) == ["mcp_list_tools", "mcp_call", "message"]
        server = {"type": "url", "url": "mcp:raw", "name": "raw"}
        asked = {"model": "demo", "max_tokens": 9, "mcp_servers": [server], "messages": HELLO}
        refused = client.post("/v1/messages", json=asked)
        assert refused.status_code == 400
        assert "leave the tool out" in refused.json()["error"]["message"]
