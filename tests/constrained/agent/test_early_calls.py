"""Calls that begin while the turn is being written: they change when something is done, and nothing
else."""

import asyncio
import gc
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from constrained.agent.actions import ThreadCall
from constrained.agent.finished_run import Reason, Run
from constrained.agent.run import arun, run
from constrained.engine.protocol import Sampling
from constrained.errors import GrammarError
from constrained.prompt.tools.execution import Outcome
from constrained.prompt.tools.functions import FunctionTool, find_tool, tool
from grammars.errors import ToolError
from grammars.turn import CallRead, ToolCall
from tests.scripted_model import scripted
from tests.templates import hermes_call

GREEDY = Sampling(temperature=0)
WAIT = 20  # seconds, for what comes at once


def call(name: str, value: int) -> str:
    return hermes_call(name, json.dumps({"value": value}))


def test_a_call_begins_while_the_turn_is_being_written() -> None:
    events: list[str] = []

    @tool(read_only=True)
    def look(value: int) -> int:
        events.append("look")
        return value

    model = scripted(call("look", 1) + "\n" + call("look", 2), "Done.")
    stream = model.stream

    def watched(*given: Any, **options: Any) -> Any:
        source = stream(*given, **options)

        class Watched:
            result = property(lambda _: source.result)
            cancel = staticmethod(source.cancel)

            def __iter__(self) -> Any:
                for event in source:
                    if isinstance(event, CallRead) and event.index == 1:
                        deadline = threading.Event()
                        while "look" not in events and not deadline.wait(0.001):
                            pass
                        events.append("second call is read")
                    yield event

        return Watched()

    model.stream = watched  # type: ignore[method-assign]
    ran = run(model, "Go.", [look], sampling=GREEDY)
    assert events == ["look", "second call is read", "look"]
    assert [made.result for made in ran.calls] == [1, 2]


def test_read_only_calls_of_a_turn_run_beside_each_other() -> None:
    barrier = threading.Barrier(2, timeout=WAIT)

    @tool(read_only=True)
    def look(value: int) -> int:
        barrier.wait()
        return value

    @tool(read_only=True)
    async def alook(value: int) -> int:
        await asyncio.to_thread(barrier.wait)
        return value

    for looking in (look, alook):
        name = looking.__name__
        scripts = [call(name, 1) + "\n" + call(name, 2), "Done."]
        ran = run(scripted(*scripts), "Go.", [looking], sampling=GREEDY)
        again = asyncio.run(arun(scripted(*scripts), "Go.", [looking], sampling=GREEDY))
        assert [made.result for made in ran.calls] == [1, 2]
        assert again.messages == ran.messages


@dataclass
class World:
    """Something that calls read and change; notes each of them."""

    value: int = 0

    def __post_init__(self) -> None:
        self.reads: list[int] = []
        self.writes: list[int] = []

    def read(self, value: int) -> str:
        self.reads.append(value)
        if value == 3:
            raise ValueError("three")
        return f"{value} of {self.value}"

    def write(self, value: int) -> int:
        self.writes.append(value)
        self.value += value + 1
        return self.value

    async def aread(self, value: int) -> str:
        await asyncio.sleep(0)
        return self.read(value)

    def tools(self, *, early: bool) -> list[FunctionTool]:
        return [
            FunctionTool.from_function(self.read, read_only=early),
            FunctionTool.from_function(self.aread, read_only=early),
            FunctionTool.from_function(self.write),
        ]


CALLS = st.tuples(st.sampled_from(["read", "aread", "write"]), st.integers(0, 4))
TURNS = st.lists(st.lists(CALLS, min_size=1, max_size=5), max_size=4)


def approve_but_four(call: ToolCall) -> bool | str:
    return "not four" if call.arguments["value"] == 4 else True


@given(TURNS, st.booleans(), st.sampled_from([1, 3]), st.sampled_from([None, 90, 200]))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=20)
@example([[("read", 3), ("write", 1), ("read", 3)]], True, 3, None)
@example([[("read", 1), ("read", 1), ("aread", 4)], [("read", 1)]], True, 1, None)
def test_nothing_changes_but_the_time(
    turns: list[list[tuple[str, int]]], approves: bool, identical: int, tokens: int | None
) -> None:
    """No call is lost, none is made twice, results are in order, and a call that stands after one
    that writes sees what that wrote."""
    scripts = ["\n".join(call(*one) for one in turn) for turn in turns] + ["Done."]
    options: dict[str, Any] = {"sampling": GREEDY, "max_identical_calls": identical}
    if approves:
        options["approve"] = approve_but_four
    if tokens is not None:
        options["max_tokens"] = tokens
    runs: list[tuple[Run, World]] = []
    for early in (False, True):
        world = World()
        ran = run(scripted(*scripts), "Go.", world.tools(early=early), **options)
        runs.append((ran, world))
    (plain, before), (ran, world) = runs
    assert ran.messages == plain.messages
    assert (ran.reason, ran.steps, ran.spent.calls) == (
        plain.reason,
        plain.steps,
        plain.spent.calls,
    )
    assert [one.call for one in ran.calls] == [one.call for one in plain.calls]
    assert [one.outcome for one in ran.calls] == [one.outcome for one in plain.calls]
    assert world.writes == before.writes
    if plain.reason is not Reason.LENGTH:  # calls of a turn that is cut may have begun, to no avail
        assert sorted(world.reads) == sorted(before.reads)


@given(TURNS)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=10)
def test_an_async_run_makes_each_call_once(turns: list[list[tuple[str, int]]]) -> None:
    scripts = ["\n".join(call(*one) for one in turn) for turn in turns] + ["Done."]
    world = World()
    ran = asyncio.run(
        arun(scripted(*scripts), "Go.", world.tools(early=True), sampling=GREEDY, max_repeats=99)
    )
    made = [one.call for one in ran.calls]
    assert sorted(world.reads) == sorted(
        one.arguments["value"] for one in made if one.name != "write"
    )
    assert world.writes == [one.arguments["value"] for one in made if one.name == "write"]
    asked = [message["tool_call_id"] for message in ran.messages if message["role"] == "tool"]
    assert asked == [one.id for one in made]
    assert len(set(asked)) == len(asked)


def fail_behind(model: Any, error: Exception, began: threading.Event | None = None) -> None:
    """Has the turns of a model fail after their first call; sync ones, once that has begun."""
    stream, astream = model.stream, model.astream

    class Failing:
        def __init__(self, source: Any):
            self.source = source
            self.cancel = source.cancel

        def __iter__(self) -> Any:
            for event in self.source:
                yield event
                if isinstance(event, CallRead):
                    assert began is None or began.wait(WAIT)
                    raise error

        async def __aiter__(self) -> Any:
            async for event in self.source:
                yield event
                if isinstance(event, CallRead):
                    await asyncio.sleep(0.01)
                    raise error

    model.stream = lambda *given, **options: Failing(stream(*given, **options))
    model.astream = lambda *given, **options: Failing(astream(*given, **options))


def test_a_turn_that_fails_cancels_its_calls() -> None:
    began = threading.Event()
    cancelled: list[bool] = []

    async def look(value: int) -> None:
        began.set()
        try:
            await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def go() -> None:
        model = scripted(call("look", 1))
        fail_behind(model, GrammarError("broken"))
        looking = FunctionTool.from_function(look, read_only=True)
        with pytest.raises(GrammarError):
            await arun(model, "Go.", [looking], sampling=GREEDY)
        await asyncio.sleep(0.01)

    asyncio.run(go())
    assert began.is_set()
    assert cancelled == [True]


def test_a_sync_turn_that_fails_stops_its_async_calls() -> None:
    began, cancelled = threading.Event(), threading.Event()

    async def look(value: int) -> None:
        began.set()
        try:
            await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    model = scripted(call("look", 1))
    fail_behind(model, GrammarError("broken"), began)
    looking = FunctionTool.from_function(look, read_only=True)
    with pytest.raises(GrammarError):
        run(model, "Go.", [looking], sampling=GREEDY)
    assert cancelled.wait(WAIT)


def test_a_sync_turn_that_fails_does_not_wait_for_its_calls() -> None:
    release = threading.Event()

    def look(value: int) -> bool:
        return release.wait(WAIT)

    model = scripted(call("look", 1))
    fail_behind(model, GrammarError("broken"))
    with pytest.raises(GrammarError):
        run(model, "Go.", [FunctionTool.from_function(look, read_only=True)], sampling=GREEDY)
    assert not release.is_set()
    release.set()


def test_a_call_in_the_ending_of_a_cut_turn_does_not_begin() -> None:
    made: list[int] = []

    @tool(read_only=True)
    def look(value: int) -> int:
        made.append(value)
        return value

    script = call("look", 123456789) + "\n" + call("look", 987654321)
    for limit in range(60, 130, 9):
        made.clear()
        ran = run(
            scripted(script),
            "Go.",
            [look],
            max_tokens=limit,
            max_identical_calls=None,
            sampling=GREEDY,
        )
        assert ran.reason is Reason.LENGTH
        assert {one.outcome for one in ran.calls} <= {Outcome.CUT}
        assert set(made) <= {123456789}


def test_the_ids_of_a_stream_are_those_of_the_reply() -> None:
    def look(value: int) -> int:
        return value

    stream = scripted(call("look", 1) + "\n" + call("look", 2)).stream("Go.", [look])
    read = [event.call for event in stream if isinstance(event, CallRead)]
    assert read == list(stream.result.calls)
    assert all(one.id for one in read)


def test_who_approves_knows_the_id() -> None:
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> bool:
        asked.append(call)
        return True

    @tool(read_only=True)
    def look(value: int) -> int:
        return value

    ran = run(scripted(call("look", 1), "ok"), "Go.", [look], approve=approve, sampling=GREEDY)
    assert asked == [one.call for one in ran.calls]


SCHEMA = {"type": "object", "properties": {"value": {"type": "integer"}}}
LISTED: list[tuple[Any, bool]] = [
    ({"annotations": {"readOnlyHint": True}}, True),
    ({"annotations": {"readOnlyHint": False}}, False),
    ({"annotations": {"readOnlyHint": "yes"}}, False),
    ({"annotations": None}, False),
    ({}, False),
]


@pytest.mark.parametrize(("more", "expected"), LISTED)
@pytest.mark.parametrize("make", [dict, SimpleNamespace])
def test_what_mcp_says_of_reading(more: Any, expected: bool, make: Callable[..., Any]) -> None:
    listed = make(name="look", description="Looks.", inputSchema=SCHEMA, **more)
    if make is SimpleNamespace and more.get("annotations"):
        listed.annotations = SimpleNamespace(**more["annotations"])
    made = FunctionTool.from_mcp(listed, lambda value: value)
    assert (made.name, made.description, made.parameters) == ("look", "Looks.", SCHEMA)
    assert made.read_only is expected
    ran = run(scripted(call("look", 5), "ok"), "Go.", [made], sampling=GREEDY)
    assert ran.calls[0].result == 5


def test_what_is_no_tool_of_mcp() -> None:
    with pytest.raises(ToolError, match="not an MCP tool"):
        FunctionTool.from_mcp({"name": "look"}, print)


def test_options_of_a_tool() -> None:
    @tool(read_only=True, cost=2)
    def look(value: int) -> int:
        return value

    found = find_tool("look", [look])
    assert found is not None
    assert (found.read_only, found.cost) == (True, 2)
    said = FunctionTool.from_function(look, read_only=False)
    assert (said.read_only, said.cost) == (False, 2)
    with pytest.raises(TypeError, match="unknown option 'readonly' of a tool"):
        tool(readonly=True)  # type: ignore[call-overload]


def test_a_call_that_is_cancelled_before_it_begins_leaves_nothing() -> None:
    """A coroutine that is never awaited would be a warning, and warnings are errors."""
    released = threading.Event()
    waiting = FunctionTool.from_schema("wait", {"type": "object"}, released.wait)
    with ThreadPoolExecutor(1) as pool:
        running = ThreadCall(pool, ToolCall("wait", {}), [waiting])
        cancelled = ThreadCall(pool, ToolCall("wait", {}), [waiting])
        cancelled.cancel()
        released.set()
        assert running.result().outcome == "done"
    del cancelled
    gc.collect()
