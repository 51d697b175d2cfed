"""A run whose calls this server carries out."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from constrained.model.reply import Reply, Usage
from constrained.prompt.job import Job
from server.hosting.mcp import active_run
from server.hosting.mcp.active_run import ActiveRun
from server.http.server_end import ServerEnd
from server.turns.active_request import TurnEvent, TurnStarted
from server.turns.turn_request import GenerationOptions, TurnRequest

COMPILED: Any = "compiled"


async def follow(request: TurnRequest) -> list[TurnEvent]:
    """The events of a run."""
    service: Any = SimpleNamespace(model=None, end=ServerEnd())
    loop: Any = None
    run = ActiveRun(service, request, loop)
    events: list[TurnEvent] = []
    async with asyncio.timeout(5):
        await run.begin()
        await run.wait(1)
        async for _, come in run.follow():
            events += come
    return events


def begin(actions: Any) -> None:
    """The first turn of the run begins."""
    actions._events.put_nowait(TurnStarted(COMPILED))
    actions.compiled = COMPILED
    actions.begun.set()


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_run_that_is_cancelled_by_itself_fails_for_its_client(
    monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    async def drive(loop: Any, actions: Any, settings: Any) -> None:
        if has_begun:
            begin(actions)
        raise asyncio.CancelledError  # as a function of a tool may

    monkeypatch.setattr(active_run, "drive", drive)
    with pytest.raises(RuntimeError, match="the run was cancelled"):
        asyncio.run(follow(TurnRequest(Job([]))))


def test_a_run_ends_after_its_calls_if_no_token_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tokens of the reply count, not those of turns that were not chosen."""
    usage = Usage(prompt_tokens=5, completion_tokens=36, forward_passes=1, discarded_tokens=24)
    reply = Reply("", "", (), "tool_calls", usage, unfinished="", text="")

    async def drive(loop: Any, actions: Any, settings: Any) -> None:
        begin(actions)
        actions.usages.append(usage)
        actions.last_reply = reply
        await actions.generate(SimpleNamespace(messages=(), tools=(), options={}), None)

    monkeypatch.setattr(active_run, "drive", drive)
    for max_tokens in (10, 12):
        request = TurnRequest(Job([]), GenerationOptions(max_tokens))
        _, *events = asyncio.run(follow(request))
        assert events == [replace(reply, finish_reason="length")]


def test_discarded_turns_leave_their_tokens_to_the_next_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = Usage(prompt_tokens=5, completion_tokens=36, forward_passes=1, discarded_tokens=24)
    asked: list[TurnRequest] = []

    async def start(service: Any, request: TurnRequest) -> None:
        asked.append(request)
        raise asyncio.CancelledError

    async def run_here(service: Any, work: Any, *, quick: bool) -> Any:
        return work()

    monkeypatch.setattr(active_run, "start_request", start)
    monkeypatch.setattr(active_run, "_run_off_loop", run_here)
    model = SimpleNamespace(compiler=SimpleNamespace(knows=lambda job: True))
    service: Any = SimpleNamespace(model=model, end=ServerEnd())
    request = TurnRequest(Job([]), GenerationOptions(20))
    actions: Any = active_run._ServedActions(service, request, asyncio.Queue())  # pyright: ignore[reportPrivateUsage]
    begin(actions)
    actions.usages.append(usage)
    turn = SimpleNamespace(messages=(), tools=(), options={})
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(actions.generate(turn, None))
    assert [one.generation.max_tokens for one in asked] == [8]
