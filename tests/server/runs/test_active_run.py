"""A run whose calls this server carries out."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from constrained.job import Job
from server.runs import active_run
from server.runs.active_run import ActiveRun
from server.server_end import ServerEnd
from server.turns.active_request import TurnStarted
from server.turns.turn_request import TurnRequest

COMPILED: Any = "compiled"


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_run_that_is_cancelled_by_itself_fails_for_its_client(
    monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    async def drive(loop: Any, actions: Any, settings: Any) -> None:
        if has_begun:
            actions._events.put_nowait(TurnStarted(COMPILED))
            actions.compiled = COMPILED
            actions.begun.set()
        raise asyncio.CancelledError  # as a function of a tool may

    async def follow() -> None:
        service: Any = SimpleNamespace(model=None, end=ServerEnd())
        loop: Any = None
        run = ActiveRun(service, TurnRequest(Job([])), loop)
        async with asyncio.timeout(5):
            await run.begin()
            await run.wait(1)
            async for _ in run.follow():
                pass

    monkeypatch.setattr(active_run, "drive", drive)
    with pytest.raises(RuntimeError, match="the run was cancelled"):
        asyncio.run(follow())
