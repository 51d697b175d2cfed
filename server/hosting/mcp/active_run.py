"""A running request whose calls this server executes: several turns, one reply."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

from constrained.agent.actions import Concurrent, Note
from constrained.agent.budget import Budget
from constrained.agent.judge import RunLimits
from constrained.agent.loop import AgentLoop, NextTurn
from constrained.agent.run import RunSettings, drive
from constrained.decode.schedule.streams import arun
from constrained.errors import ContextError, TokenLimitError
from constrained.model.reply import Reply, Usage
from constrained.prompt.tools.call_result import CallResult
from server.http.caller import as_caller, find_owner
from server.http.time_left import find_time_left
from server.settings import Settings
from server.turns.active_request import (
    ActiveRequest,
    CallAnswered,
    ContextFilled,
    TurnEvent,
    TurnEvents,
    TurnStarted,
    start_request,
)
from server.turns.compiled_request import CompiledRequest
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

T = TypeVar("T")
LOG = logging.getLogger("constrained.server")


@dataclass(frozen=True)
class _Failure:
    """The run has failed."""

    error: Exception


class _NoRoomError(Exception):
    """There is no room for a turn after the first one, which has sent nothing. So the reply can
    end before it.

    Args:
        cause: says what there is too little of.
    """

    def __init__(self, cause: ContextError | TokenLimitError):
        super().__init__(cause.message)
        self.cause = cause


class ActiveRun:
    """A running agent loop. Cancelling ends it.

    Args:
        service: the model.
        request: the request of the first turn.
        loop: decides which calls are executed, what the next turn is, and when the run is over.
    """

    def __init__(self, service: Service, request: TurnRequest, loop: AgentLoop):
        self._events: asyncio.Queue[TurnEvent | _Failure] = asyncio.Queue()
        self._actions = _ServedActions(service, request, self._events)
        self._loop = loop
        self._end = service.end
        self._max_tokens = request.generation.max_tokens
        self._settings = RunSettings(
            policy=request.generation.confidence_policy,
            on_result=self._note_result,
        )
        self._first: asyncio.Future[TurnEvent | _Failure] | None = None
        self._task = asyncio.create_task(self._drive())

    @property
    def compiled(self) -> CompiledRequest:
        """The first turn. Available after `begin`."""
        assert self._actions.compiled is not None
        return self._actions.compiled

    async def begin(self) -> None:
        """Waits until the first turn is compiled.

        Raises:
            Error: the turn cannot be compiled.
        """
        compiled = asyncio.ensure_future(self._actions.begun.wait())
        try:
            await asyncio.wait({compiled, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self.cancel()
            raise
        finally:
            compiled.cancel()
        if self._actions.compiled is None:
            failure = await self._events.get()
            assert isinstance(failure, _Failure)
            raise failure.error

    async def wait(self, seconds: float) -> Sequence[TurnEvent]:
        """Waits for the first event, at most for this time, and returns it if it has come. So a
        request that is refused immediately gets its own status, not a stream with status 200.

        Raises:
            Error: as `follow`.
        """
        started = await self._events.get()
        assert isinstance(started, TurnStarted), "the first event of a run begins its first turn"
        self._first = asyncio.ensure_future(self._events.get())
        await asyncio.wait([self._first], timeout=seconds)
        if not self._first.done():
            return ()
        first = self._first.result()
        if isinstance(first, _Failure):
            raise first.error
        return [first]

    async def follow(self) -> AsyncIterator[TurnEvents]:
        """Yields the available events in batches, with the number of the choice, which is 0.
        Leaving the loop ends the run.

        Raises:
            Error: as in `Model.run`.
        """
        try:
            if self._first is not None:
                yield 0, [TurnStarted(self.compiled)]
            while True:
                come = [await (self._first or self._events.get())]
                self._first = None
                while not self._events.empty():
                    come.append(self._events.get_nowait())
                yield 0, [event for event in come if not isinstance(event, _Failure)]
                match come[-1]:
                    case _Failure(error):
                        raise error
                    case Reply():
                        return
                    case _:
                        pass
        finally:
            self.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def cancel(self) -> None:
        """Ends the current turn within one step, and cancels the calls. Does nothing if the run is
        over."""
        self._task.cancel()
        if self._first is not None:
            self._first.cancel()

    async def _drive(self) -> None:
        try:
            run = await self._end.limit(drive(self._loop, self._actions, self._settings))
        except _NoRoomError as error:
            self._end_before_turn(error)
        except Exception as error:  # `follow` raises it
            self._events.put_nowait(_Failure(error))
        except BaseException as error:  # `follow` also learns of it, but is not cancelled itself
            failure = RuntimeError("the run was cancelled")
            failure.__cause__ = error
            self._events.put_nowait(_Failure(failure))
            raise
        else:
            usage = add_usages(self._actions.usages)
            self._events.put_nowait(replace(run.reply, usage=usage))

    def _end_before_turn(self, error: _NoRoomError) -> None:
        """Ends a run before a turn that has no room. Calls of earlier turns have been executed, so
        the client gets what there is."""
        last = self._actions.last_reply
        assert last is not None, "the first turn of a run fails"
        if isinstance(error.cause, ContextError):
            reason = "its next turn does not fit into the context"
            self._events.put_nowait(ContextFilled())
        else:
            reason = f"too few of its {self._max_tokens} tokens are left for its next turn"
        LOG.warning("a reply ends after its calls, since %s: %s", reason, error)
        usage = add_usages(self._actions.usages)
        self._events.put_nowait(replace(last, finish_reason="length", usage=usage))

    def _note_result(self, number: int, result: CallResult) -> None:
        LOG.info("call of %s: %s", result.call.name, result.outcome)
        self._events.put_nowait(CallAnswered(number, result))


class _ServedActions(Concurrent):
    """The actions of a run: its turns are turns of the server, with limits and records.

    Attributes:
        compiled: the first turn.
        begun: set when the first turn is compiled.
        usages: the usage of each turn so far.
        last_reply: of the last turn that is complete; None: there is none.
    """

    def __init__(
        self,
        service: Service,
        request: TurnRequest,
        events: "asyncio.Queue[TurnEvent | _Failure]",
    ):
        super().__init__(service.model)
        self._service = service
        self._request = request
        self._events = events
        self.compiled: CompiledRequest | None = None
        self.begun = asyncio.Event()
        self.usages: list[Usage] = []
        self.last_reply: Reply | None = None
        self._has_sent = False  # the client has got an event of the current turn

    async def generate(self, turn: NextTurn, note: Note | None) -> Reply:
        self._has_sent = False
        try:
            return await self._generate(turn, note)
        except (ContextError, TokenLimitError) as error:
            # The context may also be full in the middle of a turn. What the turn has sent is then
            # not complete, so the reply is not delivered.
            if self.last_reply is None or self._has_sent:
                raise
            raise _NoRoomError(error) from error

    async def _generate(self, turn: NextTurn, note: Note | None) -> Reply:
        active = await start_request(self._service, await self._make_request(turn))
        try:
            self._events.put_nowait(TurnStarted(active.compiled))
            if self.compiled is None:
                self.compiled = active.compiled
                self.begun.set()
            return await self._follow(active, note)
        finally:
            active.cancel()

    async def _follow(self, active: ActiveRequest, note: Note | None) -> Reply:
        reply: Reply | None = None
        async for _, events in active.follow():
            for event in events:
                if isinstance(event, Reply):
                    reply = event
                    continue
                self._has_sent = True
                self._events.put_nowait(event)
                if note is not None and not isinstance(
                    event, TurnStarted | CallAnswered | ContextFilled
                ):
                    await note(event)
        assert reply is not None, "the last event of a turn is its reply"
        self.usages.append(reply.usage)
        self.last_reply = reply
        return reply

    async def _make_request(self, turn: NextTurn) -> TurnRequest:
        """Returns the request of a turn: messages and tools as the loop says, all else as in the
        client's request."""
        options, first = turn.options, self._request
        if self.compiled is not None:  # calls of the request are counted with its first turn
            first = replace(first, repeated_calls=())
        job = replace(
            first.job,
            messages=turn.messages,
            tools=turn.tools,
            tool_choice=options.get("tool_choice"),
            excluded_calls=options.get("excluded_calls", ()),
            prefill=options.get("prefill", False),
        )
        generation = first.generation
        if generation.max_tokens is not None:
            left = generation.max_tokens - sum(usage.kept_tokens for usage in self.usages)
            if self.usages and left < 1:
                raise TokenLimitError("all tokens are spent", where="/max_tokens")
            generation = replace(generation, max_tokens=left)
        service = self._service

        def make() -> TurnRequest:
            job.grammar_name  # noqa: B018  as in `complete_request`
            return replace(first, job=job, generation=generation)

        return await _run_off_loop(service, make, quick=True)


async def _run_off_loop(service: Service, work: Callable[[], T], *, quick: bool) -> T:
    """Runs some work in the compile threads; `quick`: it takes almost no time."""
    seconds = find_time_left(service.settings.timeout).measure()
    queue = service.model.queue
    return await arun(queue.prepare(as_caller(work), seconds, find_owner(), is_known=quick))


async def start_run(service: Service, request: TurnRequest) -> ActiveRun:
    """Starts the agent loop for a request that has tools of MCP servers.

    Raises:
        Error: as in `Model.run`.
    """
    loop = await _run_off_loop(service, partial(make_loop, request, service.settings), quick=False)
    run = ActiveRun(service, request, loop)
    await run.begin()
    return run


def make_loop(request: TurnRequest, settings: Settings) -> AgentLoop:
    """Makes the agent loop of a request.

    Raises:
        Error: the tools cannot be offered.
    """
    job, tools = request.job, request.tools
    options: dict[str, Any] = {
        "tool_choice": job.tool_choice,
        "excluded_calls": job.excluded_calls,
        "prefill": job.prefill,
    }
    limits = RunLimits(
        max_steps=settings.max_tool_steps,
        budget=Budget(seconds=settings.max_tool_seconds, calls=request.max_calls),
    )
    with tools.locating_errors():
        return AgentLoop(
            job.messages,
            job.tools,
            options,
            limits=limits,
            partial=True,
            final_answer=True,
        )


def add_usages(usages: Sequence[Usage]) -> Usage:
    """Returns the sum of the tokens of several turns."""
    sums: dict[str, int] = {}
    for field in fields(Usage):
        sums[field.name] = sum(getattr(usage, field.name) for usage in usages)
    return Usage(**sums)
