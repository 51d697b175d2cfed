"""`mcp_servers`: this server carries the calls of their tools out."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from anthropic import Anthropic

from constrained.engine.protocol import Chunk
from constrained.engine.scripted import ScriptedEngine
from constrained.errors import ContextError
from server.hosting.mcp.mcp_pool import McpPool
from tests.constrained.agent.mcp.raw_command import raw
from tests.scripted_model import BYTES, TURN, scripted
from tests.server.dialects.messages.message_client import (
    BASE,
    HELLO,
    PAINT,
    PATH,
    PING_TOOL,
    ask,
    events_of,
    refuse,
)
from tests.server.running_server import Json, needs_own_engine, running, stream
from tests.templates import hermes_call

LONG = 1000  # tokens: a byte is one
ECHO = hermes_call("raw__echo", '{"text": "hi"}')
SERVER: Json = {"type": "url", "url": "mcp:raw", "name": "raw"}
WISH: Json = {"mcp_servers": [SERVER], "max_tokens": LONG, "temperature": 0}


@pytest.fixture(scope="module")
def echoing() -> Iterator[httpx.Client]:
    texts = (f"{ECHO}\n{hermes_call('raw__die')}", "Done.")
    with running(scripted(*texts), mcp=McpPool([raw()], timeout=20)) as client:
        yield client


def kinds(message: Json) -> list[str]:
    return [block["type"] for block in message["content"]]


@needs_own_engine
def test_calls_are_carried_out_and_come_back(echoing: httpx.Client) -> None:
    message = ask(echoing, **WISH)
    assert kinds(message) == ["mcp_tool_use"] * 2 + ["mcp_tool_result"] * 2 + ["text"]
    use, _, result, died, text = message["content"]
    assert (use["name"], use["server_name"], use["input"]) == ("echo", "raw", {"text": "hi"})
    assert result == {
        "type": "mcp_tool_result",
        "tool_use_id": use["id"],
        "is_error": False,
        "content": [{"type": "text", "text": "echo: hi"}],
    }
    assert died["is_error"]
    assert "has ended during die" in died["content"][0]["text"]
    assert (text["text"], message["stop_reason"]) == ("Done.", "end_turn")
    events_of(echoing, **WISH)  # which checks that they add up to the same
    said = [*HELLO, {"role": "assistant", "content": message["content"]}]
    again = ask(echoing, messages=[*said, {"role": "user", "content": "And?"}], **WISH)
    assert kinds(again) == ["text"]
    usage = again["usage"]
    assert usage["input_tokens"] < 200 < usage["cache_read_input_tokens"]


def test_the_package_of_anthropic_reads_it(echoing: httpx.Client) -> None:
    servers: Any = [SERVER]
    with Anthropic(base_url=str(echoing.base_url), api_key="none") as client:
        message = client.beta.messages.create(
            model="demo",
            max_tokens=LONG,
            messages=[{"role": "user", "content": "Hi"}],
            mcp_servers=servers,
            betas=["mcp-client-2025-04-04"],
        )
    names = [type(block).__name__ for block in message.content]
    assert names[0] == "BetaMCPToolUseBlock"
    assert "BetaMCPToolResultBlock" in names


def test_calls_of_the_client_are_left_to_it() -> None:
    texts = (f"{ECHO}\n{hermes_call('ping')}", "Done.")
    with running(scripted(*texts), mcp=McpPool([raw()], timeout=20)) as client:
        message = ask(client, **WISH, tools=[PING_TOOL])
        assert kinds(message) == ["mcp_tool_use", "tool_use", "mcp_tool_result"]
        assert message["stop_reason"] == "tool_use"
        result = {"type": "tool_result", "tool_use_id": message["content"][1]["id"]}
        messages = [
            *HELLO,
            {"role": "assistant", "content": message["content"]},
            {"role": "user", "content": [{**result, "content": "pong"}]},
        ]
        assert kinds(ask(client, **WISH, tools=[PING_TOOL], messages=messages)) == ["text"]


@needs_own_engine
def test_tokens_that_run_out_in_a_later_turn_are_those_that_were_asked_for() -> None:
    with running(scripted(ECHO, "y" * 20_000), mcp=McpPool([raw()], timeout=20)) as client:
        asked = {"model": "demo", "messages": HELLO, "mcp_servers": [SERVER]}
        count = client.post("/v1/messages/count_tokens", json=asked).json()
        room = 20_000 - count["input_tokens"]
        # The last turn has less room than the whole request may write, and enough for its share.
        filled = [{"role": "user", "content": "q" * (room - 400)}]
        message = ask(client, **{**WISH, "messages": filled, "max_tokens": 300})
        assert message["usage"]["output_tokens"] == 300
        assert message["stop_reason"] == "max_tokens"
        message = ask(client, **{**WISH, "messages": filled, "max_tokens": 2000})
        assert message["stop_reason"] == "model_context_window_exceeded"


def test_a_result_that_does_not_fit_into_the_context_ends_the_reply() -> None:
    """The call has been executed, so the client has to know of it."""
    text = " ".join(map(str, range(110)))
    call = hermes_call("raw__echo", json.dumps({"text": text}))
    with running(scripted(call), mcp=McpPool([raw()], timeout=20)) as client:
        asked = {"model": "demo", "messages": HELLO, "mcp_servers": [SERVER]}
        count = client.post("/v1/messages/count_tokens", json=asked).json()
        filled = "q" * (20_000 - count["input_tokens"] - 600)  # room for the call alone
        body = {**WISH, "max_tokens": 500}
        message = ask(client, **body, messages=[{"role": "user", "content": filled}])
        assert kinds(message) == ["mcp_tool_use", "mcp_tool_result"]
        assert message["content"][1]["content"][0]["text"] == f"echo: {text}"
        assert message["stop_reason"] == "model_context_window_exceeded"
        events_of(client, **body, messages=[{"role": "user", "content": filled}])
        tool = {"type": "mcp", "server_label": "raw", "require_approval": "never"}
        asked = {"input": filled, "tools": [tool], "temperature": 0, "max_output_tokens": 500}
        response = client.post("/v1/responses", json=asked).json()
        call = response["output"][-1]
        assert (call["type"], call["status"]) == ("mcp_call", "completed")
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}


ANSWER: Json = {"type": "json_schema", "schema": {"type": "string", "minLength": 30}}


def test_tokens_that_do_not_suffice_for_the_next_turn_end_the_reply() -> None:
    with running(scripted(ECHO), mcp=McpPool([raw()], timeout=20)) as client:
        asked: Json = {**WISH, "output_format": ANSWER}
        for left in (1, 20):
            asked["max_tokens"] = len(ECHO) + left
            message = ask(client, **asked)
            assert kinds(message) == ["mcp_tool_use", "mcp_tool_result"]
            assert message["content"][1]["content"][0]["text"] == "echo: hi"
            assert message["stop_reason"] == "max_tokens"
            assert message["usage"]["output_tokens"] == len(ECHO)
        events_of(client, **asked)
        body = {"input": "Hello", "temperature": 0, "max_output_tokens": len(ECHO) + 20}
        tool = {"type": "mcp", "server_label": "raw", "require_approval": "never"}
        body |= {"tools": [tool], "text": {"format": {**ANSWER, "name": "name"}}}
        response = client.post("/v1/responses", json=body).json()
        assert [item["type"] for item in response["output"]] == ["mcp_list_tools", "mcp_call"]
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        # Without a call before it, the request asks for the impossible.
        assert "shortest turn" in refuse(client, **{**asked, "mcp_servers": [], "max_tokens": 20})


@needs_own_engine
def test_a_turn_that_fills_the_context_after_it_has_begun_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that is not complete is no call. Without a part of one, the reply ends before it."""
    decode = ScriptedEngine.decode
    limits: list[bytes] = []  # the text of the second turn that the sequences have no room for

    def refuse_more(engine: ScriptedEngine, chunks: Sequence[Chunk]) -> Any:
        for chunk in chunks:
            text = BYTES.text([*engine._tokens[chunk.sequence], *chunk.tokens])
            _, *turns = re.split(TURN, text)
            if len(turns) > 1 and turns[-1].startswith(limits[-1]):
                raise ContextError("the context that the sequences share is full")
        return decode(engine, chunks)

    monkeypatch.setattr(ScriptedEngine, "decode", refuse_more)
    paint = hermes_call("paint", '{"color": "red", "glossy": true}')
    with running(scripted(ECHO, paint), mcp=McpPool([raw()], timeout=20)) as client:
        asked: Json = {**WISH, "tools": [PAINT]}
        for nothing_sent in ("", "<tool"):
            limits.append(nothing_sent.encode())
            message = ask(client, **asked)
            assert kinds(message) == ["mcp_tool_use", "mcp_tool_result"]
            assert message["stop_reason"] == "model_context_window_exceeded"
        limits.append(paint[: paint.index("red")].encode())
        assert "is full" in refuse(client, **asked)
        *_, (kind, error) = stream(client, PATH, {**BASE, **asked})
        assert (kind, error["error"]["details"]["error_code"]) == (
            "error",
            "context_length_exceeded",
        )


TOOLSET: Json = {"type": "mcp_toolset", "mcp_server_name": "raw"}


def test_a_toolset_says_which_tools(echoing: httpx.Client) -> None:
    def count(**body: Any) -> int:
        asked = {"messages": HELLO, "model": "demo", "mcp_servers": [SERVER], **body}
        response = echoing.post("/v1/messages/count_tokens", json=asked)
        assert response.status_code == 200, response.text
        return response.json()["input_tokens"]

    whole = count()
    assert count(tools=[TOOLSET]) == whole
    off: Json = {"enabled": False}
    one = {**TOOLSET, "default_config": off, "configs": {"echo": {"enabled": True}}}
    allowed = {**SERVER, "tool_configuration": {"allowed_tools": ["echo"]}}
    assert count(tools=[one]) == count(mcp_servers=[allowed]) < whole
    none = {**SERVER, "tool_configuration": off}
    assert count(mcp_servers=[none]) < count(tools=[one])


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"mcp_servers": [{**SERVER, "name": "other"}]}, "/mcp_servers/0/name"),
        ({"mcp_servers": [{**SERVER, "url": "http://10.0.0.1/"}]}, "/mcp_servers/0/url"),
        (
            {"mcp_servers": [{**SERVER, "authorization_token": "x"}]},
            "/mcp_servers/0/authorization_token",
        ),
        ({"mcp_servers": [SERVER, SERVER]}, "/mcp_servers/1"),
        ({"tools": [TOOLSET]}, "/tools/0/mcp_server_name"),
        ({"mcp_servers": [SERVER], "tools": [{**TOOLSET, "tools": []}]}, "/tools/0/tools"),
        (
            {"mcp_servers": [SERVER], "tools": [{**TOOLSET, "configs": {"echo": {"enabled": 5}}}]},
            "/tools/0/configs/echo/enabled",
        ),
    ],
)
def test_what_cannot_be_is_refused(echoing: httpx.Client, body: Json, where: str) -> None:
    assert f"(at {where})" in refuse(echoing, **body)
