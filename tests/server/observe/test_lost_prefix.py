"""Why a prompt is new although its conversation is not."""

import copy
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.prompt.tools.functions import FunctionTool
from server.observe.lost_prefix import find_lost_prefix
from server.observe.prefix_watch import PrefixWatch
from server.observe.prompt_parts import read_parts
from server.observe.related_request import RelatedRequest, Relation
from server.turns.observers import ChangedPart
from server.turns.repeated_calls import find_repeated_calls
from tests.scripted_model import scripted
from tests.server.running_server import running
from tests.templates import tool

TOOLS = [tool("a", {"x": {"type": "string"}}), tool("b"), tool("c")]
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You help. Build 17."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": "Go on"},
]


def compare(talk: list[dict[str, Any]], tools: list[Any]) -> Any:
    watch = PrefixWatch()
    assert watch.note(TALK[:-1], TOOLS, None) is None
    return watch.note(talk, tools, None)


def test_a_conversation_that_goes_on():
    assert compare(TALK, TOOLS) is None


def test_a_rotating_header():
    lost = compare([{"role": "system", "content": "You help. Build 18."}, *TALK[1:]], TOOLS)
    assert lost.part is ChangedPart.SYSTEM
    assert (lost.offset, lost.before, lost.after) == (17, "7.", "8.")


def test_tools():
    edited = copy.deepcopy(TOOLS)
    edited[1]["function"]["description"] = "New."
    lost = compare(TALK, edited)
    assert (lost.part, lost.name) == (ChangedPart.TOOL_EDITED, "tool 2 (b)")
    assert "New." in lost.after
    lost = compare(TALK, [TOOLS[0], TOOLS[2], TOOLS[1]])
    assert (lost.part, lost.name) == (ChangedPart.TOOLS_REORDERED, "tool 2 (c)")
    lost = compare(TALK, [*TOOLS, tool("d")])
    assert (lost.part, lost.name) == (ChangedPart.TOOL_ADDED, "tool 4 (d)")
    lost = compare(TALK, TOOLS[:2])
    assert (lost.part, lost.name) == (ChangedPart.TOOL_REMOVED, "tool 3 (c)")


def test_functions_are_compared_by_what_the_model_reads():
    """Each request has functions of its own for the tools of MCP servers."""

    def make(description: str) -> FunctionTool:
        return FunctionTool("a", {"type": "object"}, description, function=lambda: None)

    watch = PrefixWatch()
    watch.note(TALK[:-1], [make("One.")], None)
    assert watch.note(TALK, [make("One.")], None) is None
    lost = watch.note([*TALK, TALK[1]], [make("Two.")], None)
    assert lost is not None
    assert (lost.part, lost.name) == (ChangedPart.TOOL_EDITED, "tool 1 (a)")


def test_a_message_in_the_middle():
    talk = copy.deepcopy(TALK)
    talk[2]["content"] = "Hi."
    watch = PrefixWatch()
    watch.note(TALK, TOOLS, None)
    lost = watch.note([*talk, {"role": "assistant", "content": "..."}], TOOLS, None)
    assert lost is not None
    assert (lost.part, lost.name) == (ChangedPart.MESSAGE, "message 2 (assistant)")


def test_what_is_no_loss():
    other = [TALK[0], {"role": "user", "content": "Something else"}]
    assert compare(other, TOOLS) is None  # another conversation after the same beginning
    assert compare([*TALK[:1], {"role": "user", "content": "x"}], [tool("z")]) is None


def test_another_salt_is_not_compared():
    watch = PrefixWatch()
    watch.note(TALK, TOOLS, "one")
    assert watch.note([{"role": "system", "content": "?"}, *TALK[1:]], TOOLS, "two") is None


@given(st.integers(0, 18), st.characters(exclude_categories=("Cs",)))
def test_any_changed_character_of_the_system_message_is_found(position: int, char: str):
    text = TALK[0]["content"]
    changed = text[:position] + char + text[position + 1 :]
    lost = compare([{"role": "system", "content": changed}, *TALK[1:]], TOOLS)
    if changed == text:
        assert lost is None
    else:
        assert lost.offset == position


@given(st.permutations(TOOLS), st.lists(st.sampled_from(TOOLS), unique_by=str))
def test_tools_are_the_same_or_differ(first: list[Any], second: list[Any]):
    earlier = RelatedRequest(read_parts(TALK, first), Relation.CONTINUED)
    lost = find_lost_prefix(earlier, read_parts(TALK, second))
    assert (lost is None) == (first == second)


def test_what_is_kept_is_bounded():
    watch = PrefixWatch(max_requests=3, characters=1000)
    for number in range(10):
        watch.note([{"role": "user", "content": "x" * 400 + str(number)}], (), None)
    assert len(watch._kept) <= 2
    watch.note([{"role": "user", "content": "x" * 5000}], (), None)
    assert watch._size == 0


def call(name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}


def test_repeated_calls():
    talk = [call("f", '{"a": 1, "b": 2}'), call("f", {"b": 2.0, "a": 1}), call("f", {"a": 1})]
    assert find_repeated_calls(talk, 3) == []
    assert find_repeated_calls([*talk, call("f", '{"b":2,"a":1}')], 3) == [("f", 3)]
    assert find_repeated_calls([*talk, {"role": "user"}, call("f", {"a": 1, "b": 2})], 3) == []
    assert find_repeated_calls([call("f", "{"), call("f", "{")], 2) == [("f", 2)]


@pytest.mark.parametrize("depth", [700, 100_000])
def test_calls_that_nest_deeply_cost_no_request(depth: int):
    arguments = '{"a":' + "[" * depth + "]" * depth + "}"
    find_repeated_calls([call("f", arguments)] * 3, 3)
    messages = [TALK[1], call("f", arguments), {"role": "tool", "content": "?"}, TALK[1]]
    with running(scripted("Hi.")) as client:
        reply = client.post("/v1/chat/completions", json={"messages": messages})
    assert reply.status_code in (200, 400)


def test_log_metrics_and_reply(caplog: pytest.LogCaptureFixture):
    calls = [call("a", json.dumps({"x": "1"})) for _ in range(3)]
    for number, message in enumerate(calls):
        message["tool_calls"][0]["id"] = f"call_{number}"
    results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": "?"} for n in range(3)]
    turns = [message for pair in zip(calls, results, strict=True) for message in pair]
    with running(scripted("Hi.")) as client, caplog.at_level(logging.WARNING):
        for build in ("17", "18"):
            system = {"role": "system", "content": f"Build {build}. " + "You help. " * 20}
            body = {"messages": [system, *TALK[1:], *turns], "tools": TOOLS}
            reply = client.post("/v1/chat/completions", json=body).json()
        metrics = client.get("/metrics").text
    assert reply["constrained"]["repeated_calls"] == [{"name": "a", "count": 3}]
    assert 'constrained_prefix_lost_total{part="system"} 1.0' in metrics
    assert "constrained_repeated_calls_total 2.0" in metrics
    assert "the system message has changed at character 7" in caplog.text
    assert "same call of a 3 times" in caplog.text


def test_a_greeting_alone_is_no_kinship():
    watch = PrefixWatch()
    hello = {"role": "user", "content": "Hello"}
    watch.note([{"role": "system", "content": "The password is swordfish"}, hello], (), None)
    assert watch.note([{"role": "system", "content": "You sell shoes"}, hello], (), None) is None
    assert watch.note([hello], (), None) is None


def test_tools_without_names_are_told_apart_by_their_place():
    watch = PrefixWatch()
    tools = [{"type": "a"}, {"type": "b"}]
    watch.note(TALK, tools, None)
    assert watch.note(TALK, tools, None) is None
    lost = watch.note(TALK, tools[:1], None)
    assert lost is not None
    assert lost.part is ChangedPart.TOOL_REMOVED


def test_the_log_shows_no_prompt():
    lost = compare([{"role": "system", "content": "You help. Build 18."}, *TALK[1:]], TOOLS)
    assert "8." in lost.describe()
    assert "8." not in lost.describe(shows_text=False)
