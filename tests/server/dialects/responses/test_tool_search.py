"""`tool_search` and `defer_loading`: what the client's search has found may be called."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI

from constrained.tools.search import ToolSearch
from tests.scripted_model import scripted
from tests.server.dialects.responses.test_responses import (
    FLAT_PAINT,
    FLAT_PING,
    RESPONSES,
    ask,
    events_of,
    refuse,
)
from tests.server.running_server import Json, needs_own_engine, running
from tests.templates import hermes_call

QUERY = {"type": "object", "properties": {"goal": {"type": "string"}}, "required": ["goal"]}
SEARCH: Json = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": QUERY,
}
DEFERRED = {**FLAT_PAINT, "defer_loading": True}
SEARCHES = hermes_call("tool_search", '{"goal": "paint"}')
PAINTS = hermes_call("paint", '{"color": "red", "glossy": true}')


@pytest.fixture(scope="module")
def painter() -> Iterator[httpx.Client]:
    with running(scripted(SEARCHES, PAINTS)) as client:
        yield client


def find(*tools: Json, arguments: Any = None) -> list[Json]:
    """A conversation in which the client's search has found these tools."""
    call = {"type": "tool_search_call", "call_id": "call_1", "execution": "client"}
    output = {"type": "tool_search_output", "call_id": "call_1", "execution": "client"}
    return [
        {"role": "user", "content": "Hello"},
        {**call, "arguments": {"goal": "paint"} if arguments is None else arguments},
        {**output, "tools": list(tools)},
    ]


def count(client: httpx.Client, input: Any = "Hello", **body: Any) -> int:
    response = client.post(f"{RESPONSES}/input_tokens", json={"input": input, **body})
    assert response.status_code == 200, response.text
    return response.json()["input_tokens"]


@needs_own_engine
def test_a_search_is_an_item_of_its_own_and_what_it_finds_is_called(painter: httpx.Client) -> None:
    tools = [SEARCH, DEFERRED]
    searched = ask(painter, tools=tools, temperature=0)
    (call,) = searched["output"]
    assert (call["type"], call["execution"]) == ("tool_search_call", "client")
    assert (call["arguments"], call["status"]) == ({"goal": "paint"}, "completed")
    assert "constrained" not in searched
    output = {"type": "tool_search_output", "call_id": call["call_id"], "tools": [FLAT_PAINT]}
    painted = ask(painter, [output], tools=tools, previous_response_id=searched["id"])
    (call,) = painted["output"]
    assert (call["type"], call["name"]) == ("function_call", "paint")
    listed = painter.get(f"{RESPONSES}/{painted['id']}/input_items").json()["data"]
    assert [item["type"] for item in listed][:2] == ["tool_search_output", "tool_search_call"]


def test_a_stream_has_the_search_as_a_whole(painter: httpx.Client) -> None:
    events = events_of(painter, tools=[SEARCH, DEFERRED], temperature=0)
    items = [event for event in events if "item" in event]
    assert [event["item"]["status"] for event in items] == ["in_progress", "completed"]
    assert items[1]["item"] == events[-1]["response"]["output"][0]
    assert not any(event["type"].endswith(".delta") for event in events)


def test_the_prompt_has_a_tool_once_it_was_found(painter: httpx.Client) -> None:
    tools = [SEARCH, FLAT_PING, DEFERRED]
    without = count(painter, tools=[SEARCH, FLAT_PING])
    assert count(painter, tools=tools) == without
    assert count(painter, tools=[SEARCH, FLAT_PING, FLAT_PAINT]) > without
    nothing, found = (count(painter, find(*one), tools=tools) for one in ([], [FLAT_PAINT]))
    assert found > nothing
    # A tool that only the search knows may be called, too; one of the prompt stays as it is.
    assert ask(painter, find(FLAT_PAINT, FLAT_PING), tools=[SEARCH, FLAT_PING])["output"]


def test_tools_of_namespaces_are_found(painter: httpx.Client) -> None:
    space = {"type": "namespace", "name": "art", "description": "Art.", "tools": [DEFERRED]}
    call = hermes_call("art__paint", '{"color": "red", "glossy": true}')
    with running(scripted(call)) as client:
        (item,) = ask(client, find(space), tools=[SEARCH, space])["output"]
    assert (item["name"], item["namespace"]) == ("paint", "art")


def test_a_search_without_parameters_loads_names_that_there_are() -> None:
    tools = [{"type": "tool_search", "execution": "client"}, DEFERRED, FLAT_PING]
    with running(scripted(hermes_call("tool_search", '{"paths": ["paint"]}'))) as client:
        (item,) = ask(client, tools=tools)["output"]
    assert item["arguments"] == {"paths": ["paint"]}


HOSTED: Json = {"type": "tool_search"}
FINDS = hermes_call("tool_search", '{"query": "paint"}')


@needs_own_engine
def test_results_of_searches_come_in_the_order_of_the_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second_is_over = threading.Event()
    search = ToolSearch.search

    def wait_for_second(self: ToolSearch, query: str) -> Json:
        if query == "paint":
            assert second_is_over.wait(60)
            time.sleep(0.1)  # the loop takes the result of the second one meanwhile
            return search(self, query)
        found = search(self, query)
        second_is_over.set()
        return found

    monkeypatch.setattr(ToolSearch, "search", wait_for_second)
    with running(scripted(f"{FINDS}\n{FINDS.replace('paint', 'nothing')}", PAINTS)) as client:
        tools = [HOSTED, FLAT_PING, DEFERRED]
        body = ask(client, tools=tools, temperature=0, max_output_tokens=1000)
    assert [len(item["tools"]) for item in body["output"][2:4]] == [1, 0]


@needs_own_engine
def test_a_search_of_this_server_finds_what_the_same_response_calls() -> None:
    tools = [HOSTED, FLAT_PING, DEFERRED]
    asked: Json = {"tools": tools, "temperature": 0, "max_output_tokens": 1000}
    with running(scripted(f"{FINDS}\n{FINDS.replace('paint', 'nothing')}", PAINTS)) as client:
        longer = [HOSTED, FLAT_PING, {**DEFERRED, "description": "Paints whatever there is."}]
        assert count(client, tools=tools) == count(client, tools=longer)  # neither has it
        events = events_of(client, **asked)
        body = events[-1]["response"]
        kinds = [(item["type"], item.get("execution")) for item in body["output"]]
        search, found = ("tool_search_call", "server"), ("tool_search_output", "server")
        assert kinds == [search, search, found, found, ("function_call", None)]
        calls, outputs, call = body["output"][:2], body["output"][2:4], body["output"][4]
        assert [item["call_id"] for item in (*calls, *outputs)] == [None] * 4
        assert calls[0]["arguments"] == {"query": "paint"}
        whole = {**FLAT_PAINT, "description": None, "strict": None, "defer_loading": True}
        assert outputs[0]["tools"] == [whole]
        assert outputs[1]["tools"] == []
        assert (call["name"], "constrained" in body) == ("paint", False)
        # The next turn reads the same, and finds it in the cache; so does a client without a store.
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Painted."}
        conversation = [{"role": "user", "content": "Hello"}, *body["output"], result]
        follows = ({"input": [result], "previous_response_id": body["id"]}, {"input": conversation})
        for follow in follows:
            usage = ask(client, **{**asked, **follow})["usage"]
            cached = usage["input_tokens_details"]["cached_tokens"]
            assert cached > 0.9 * usage["input_tokens"]


def test_a_search_finds_tools_of_namespaces_and_custom_ones() -> None:
    member = {**FLAT_PING, "name": "pong", "defer_loading": True}
    space = {"type": "namespace", "name": "art", "description": "Art.", "tools": [member]}
    custom = {"type": "custom", "name": "draw", "description": "Draws art.", "defer_loading": True}
    query = hermes_call("tool_search", '{"query": "art"}')
    with running(scripted(query, hermes_call("art__pong"))) as client:
        body = ask(client, tools=[HOSTED, space, custom], max_output_tokens=1000)
    found = {tool["name"]: tool["type"] for tool in body["output"][1]["tools"]}
    assert found == {"art": "namespace", "draw": "custom"}
    assert (body["output"][2]["name"], body["output"][2]["namespace"]) == ("pong", "art")


def test_a_search_with_nothing_to_find_is_left_out() -> None:
    with running(scripted(PAINTS)) as client:
        body = ask(client, tools=[HOSTED, FLAT_PAINT])
    assert body["output"][0]["name"] == "paint"
    assert body["constrained"]["skipped_tools"][0]["type"] == "tool_search"


def test_what_cannot_be(painter: httpx.Client) -> None:
    tools = [SEARCH, DEFERRED]
    bad = {**FLAT_PAINT, "defer_loading": 1}
    assert refuse(painter, tools=[SEARCH, bad])["param"] == "/tools/1/defer_loading"
    assert refuse(painter, find(arguments="x"), tools=tools)["param"] == "/input/1/arguments"
    assert refuse(painter, find({}), tools=tools)["param"] == "/input/2/tools/0/name"
    unnamed = {"type": "namespace", "name": "art", "tools": [{"type": "function"}]}
    where = "/input/2/tools/0/tools/0/name"
    assert refuse(painter, find(unnamed), tools=tools)["param"] == where
    broken = {**FLAT_PAINT, "parameters": {"type": "object", "properties": 5}}
    assert ask(painter, find(broken), tools=tools)["constrained"]["refused_tools"]
    choice = {"type": "function", "name": "paint"}
    assert "paint" in refuse(painter, tools=tools, tool_choice=choice)["message"]


def test_the_client_of_openai_reads_a_search(painter: httpx.Client) -> None:
    client = OpenAI(base_url=f"{painter.base_url}/v1", api_key="none", max_retries=0)
    with client:
        response = client.responses.create(
            model="demo",
            input="Hello",
            tools=[SEARCH, DEFERRED],  # pyright: ignore[reportArgumentType]
            tool_choice={"type": "tool_search"},  # pyright: ignore[reportArgumentType]
            max_output_tokens=150,
        )
    (item,) = response.output
    assert item.type == "tool_search_call"
    assert item.arguments == {"goal": "paint"}
