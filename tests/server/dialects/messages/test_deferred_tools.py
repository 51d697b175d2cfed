"""Tools with `defer_loading`: in the prompt, and callable, once a result refers to them."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.scripted_model import scripted
from tests.server.dialects.messages.message_client import (
    HELLO,
    PAINT,
    PING_TOOL,
    ask,
    count,
    refuse,
)
from tests.server.running_server import Json, running
from tests.templates import hermes_call

DEFERRED = {**PAINT, "defer_loading": True}
SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


@pytest.fixture(scope="module")
def painter() -> Iterator[httpx.Client]:
    call = hermes_call("paint", '{"color": "red", "glossy": true}')
    with running(scripted(call)) as client:
        yield client


def refer(*names: Any) -> list[Json]:
    """A conversation in which a search of the client has found these tools."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "ping", "input": {}}
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": references}
    return [
        *HELLO,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


def names_of(message: Json) -> list[str]:
    return [block["name"] for block in message["content"] if block["type"] == "tool_use"]


def test_a_deferred_tool_is_called_once_it_was_found(painter: httpx.Client) -> None:
    tools = [PING_TOOL, DEFERRED]
    assert count(painter, tools=tools) == count(painter, tools=[PING_TOOL])
    message = ask(painter, tools=tools, messages=refer("paint"))
    assert message["content"][0]["input"] == {"color": "red", "glossy": True}
    assert "paint" not in names_of(ask(painter, tools=tools, max_tokens=60))
    found, none = (count(painter, tools=tools, messages=refer(*n)) for n in (["paint"], []))
    assert found > none  # the result describes it
    assert names_of(ask(painter, tools=[PING_TOOL, PAINT])) == ["paint"]


def test_references_to_a_long_tool_are_not_written_without_end(painter: httpx.Client) -> None:
    description = {"description": "a" * 1_000_000}
    tools = [PING_TOOL, {**DEFERRED, **description}]
    error = refuse(painter, tools=tools, messages=refer(*["paint"] * 20))
    assert "described by 17," in error
    assert "/messages/2/content/0/content/16" in error


@pytest.mark.parametrize("kind", ["bm25", "regex"])
def test_a_search_of_anthropics_own_is_carried_out(kind: str) -> None:
    name = f"tool_search_tool_{kind}"
    tools = [{"type": f"{name}_20251119", "name": name}, PING_TOOL, DEFERRED]
    finds = hermes_call(name, '{"query": "paint"}')
    paints = hermes_call("paint", '{"color": "red", "glossy": true}')
    with running(scripted(finds, paints)) as client:
        message = ask(client, tools=tools, temperature=0, max_tokens=1000)
        use, result, call = message["content"]
        assert (use["type"], use["name"], use["input"]) == (
            "server_tool_use",
            name,
            {"query": "paint"},
        )
        references = [{"type": "tool_reference", "tool_name": "paint"}]
        found = {"type": "tool_search_tool_search_result", "tool_references": references}
        assert (result["content"], result["tool_use_id"]) == (found, use["id"])
        assert (call["name"], message["stop_reason"]) == ("paint", "tool_use")
        done = {"type": "tool_result", "tool_use_id": call["id"], "content": "Painted."}
        again = ask(
            client,
            tools=tools,
            messages=[
                *HELLO,
                {"role": "assistant", "content": message["content"]},
                {"role": "user", "content": [done]},
            ],
        )
        assert names_of(again) == ["paint"]  # it is still found
        assert again["usage"]["input_tokens"] < 150


def test_what_cannot_be_deferred(painter: httpx.Client) -> None:
    tools = [PING_TOOL, DEFERRED]
    assert "all tools have defer_loading" in refuse(painter, tools=[DEFERRED])
    assert "defer_loading" in refuse(painter, tools=[PING_TOOL, {**PAINT, "defer_loading": 1}])
    told = refuse(painter, tools=tools, messages=refer("paint", "rm"))
    assert "no tool 'rm'" in told
    assert "/messages/2/content/0/content/1/tool_name" in told
    assert "no tool None" in refuse(painter, tools=tools, messages=refer(None))
    choice = {"type": "tool", "name": "paint"}
    assert "'paint'" in refuse(painter, tools=tools, tool_choice=choice)
    assert names_of(ask(painter, tools=tools, tool_choice=choice, messages=refer("paint")))


def test_what_is_wrong_with_a_deferred_tool_is_pointed_to(painter: httpx.Client) -> None:
    tools = [PING_TOOL, PAINT, {**PAINT, "name": "bad", "defer_loading": True}]
    tools.append({**tools[2], "description": "Another."})
    told = refuse(painter, tools=tools, messages=refer("bad"))
    assert "two tools are called 'bad'" in told
    assert "/tools/3" in told
