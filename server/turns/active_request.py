"""A request whose turns are being generated, and the stream of their events."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.schedule.streams import AsyncStream
from constrained.engine.sampling import SEEDS, Sampling
from constrained.errors import AbandonedError
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply, Usage
from server.errors import as_http_error
from server.http.caller import find_owner, find_request_id
from server.http.time_left import find_time_left
from server.turns.compiled_request import CompiledRequest, compile_instead, compile_request
from server.turns.request_record import FAILED
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest

LOG = logging.getLogger("constrained.server")


TurnEvent: TypeAlias = StreamEvent | Reply
"""An event of a turn. The reply comes last."""
TurnEvents: TypeAlias = tuple[int, Sequence[TurnEvent]]
"""The number of a choice, from 0, and events of its turn."""


class ActiveRequest:
    """A request whose turns are being generated, one for each choice; and how many seconds it took
    to compile it."""

    def __init__(
        self,
        compiled: CompiledRequest,
        turns: Sequence[AsyncStream[Reply]],
        *,
        compile_seconds: float = 0.0,
    ):
        self.compiled = compiled
        self._compile_seconds = compile_seconds
        self._request_id = find_request_id()
        self._launched_at = time.monotonic()
        self._turns = turns
        self._observers = compiled.service.observers
        self._finished: set[int] = set()
        self._first: asyncio.Future[TurnEvents] | None = None
        followed: list[AsyncGenerator[TurnEvents, None]] = []
        for number, turn in enumerate(turns):
            followed.append(_follow(turn, number))
        if len(followed) == 1:  # the usual case, which needs no tasks
            self._events = followed[0]
        else:
            self._events = _merge(followed)

    async def wait(self, seconds: float) -> Sequence[TurnEvent]:
        """Waits for the first events, so many seconds at most, and returns them; `follow` yields
        them again. If the request is refused at once, the response then has the status of the
        error, and is not a stream with status 200."""
        self._first = asyncio.ensure_future(anext(self._events))
        done, _ = await asyncio.wait([self._first], timeout=seconds)
        for task in done:
            _, events = task.result()
            return events
        return ()

    async def follow(self) -> AsyncIterator[TurnEvents]:
        """Yields the events of all choices as they come, in batches. The last event of a choice is
        its reply. Leaving the loop cancels the turns.

        Raises:
            Error: as in `Model.call`; the other turns end as well.
        """
        try:
            if self._first is not None:
                yield self._note_all(await self._first)
            async for come in self._events:
                yield self._note_all(come)
        finally:
            self.cancel()
            if self._first is not None:
                await asyncio.gather(self._first, return_exceptions=True)
            await self._events.aclose()

    def _note_all(self, come: TurnEvents) -> TurnEvents:
        number, events = come
        return number, [self._note(number, event) for event in events]

    def _note(self, number: int, event: TurnEvent) -> TurnEvent:
        if not isinstance(event, Reply):
            return event
        self._finished.add(number)
        self._note_usage(event.usage)
        self._note_record(event, is_first=number == 0)
        if self.compiled.service.settings.log_prompts:
            LOG.info("reply: %r", event.text)
        return event

    def _note_unfinished(self, ended: Future[Reply]) -> None:
        """Notes a turn without a reply for the client: it was cancelled, or has failed."""
        usage = Usage(len(self.compiled.turn.tokens), 0, 0)
        reply, code = Reply("", "", (), "cancelled", usage, unfinished="", text=""), ""
        if not ended.cancelled():
            match ended.exception():
                case None:
                    reply = ended.result()
                    self._note_usage(reply.usage)
                case Exception() as error if not isinstance(error, AbandonedError):
                    code = as_http_error(error).code
                case _:
                    pass
        self._note_record(reply, is_first=False, error=code)

    def _note_usage(self, usage: Usage) -> None:
        if self._observers.counters is not None:
            self._observers.counters.note_usage(usage)

    def _note_record(self, reply: Reply, *, is_first: bool, error: str = "") -> None:
        elapsed = time.monotonic() - self._launched_at
        record = self.compiled.record(
            reply, compile_seconds=self._compile_seconds, elapsed_seconds=elapsed
        )
        record = replace(record, request_id=self._request_id)
        if not is_first:  # they belong to the request, not to each choice
            record = replace(record, repeated_calls=0)
        if error:
            record = replace(record, finish=FAILED, error=error)
        LOG.info("%s", record, extra={"fields": record.fields})
        if self._observers.counters is not None:
            self._observers.counters.note_record(record)
        if self._observers.records is not None:
            self._observers.records.note(record)
        if is_first:
            for name, count in self.compiled.request.repeated_calls:
                LOG.warning("the conversation has the same call of %s %d times", name, count)

    def cancel(self) -> None:
        """Cancels the turns within one step; does nothing if they are over."""
        if self._first is not None and not self._first.cancel() and not self._first.cancelled():
            self._first.exception()  # else asyncio logs that it was never retrieved
        for turn in self._turns:
            turn.cancel()
        unfinished = set(range(len(self._turns))) - self._finished
        if self._observers.counters is not None:
            self._observers.counters.note_unfinished(len(unfinished))
        self._finished.update(unfinished)
        for number in unfinished:
            self._turns[number].when_over(self._note_unfinished)


async def start_request(service: Service, request: TurnRequest) -> ActiveRequest:
    time_left = find_time_left(service.settings.timeout)
    began = time.monotonic()
    compiled = await compile_request(service, request, time_left.measure())
    instead = await compile_instead(compiled, time_left.measure())
    compile_seconds = time.monotonic() - began
    launched = launch(
        service,
        request.generation,
        compiled.turn,
        instead=instead,
        timeout=time_left.measure(),
    )
    _log(compiled)
    return ActiveRequest(compiled, launched, compile_seconds=compile_seconds)


def launch(
    service: Service,
    options: GenerationOptions,
    turn: CompiledTurn,
    *,
    instead: CompiledTurn | None = None,
    timeout: float | None = None,
) -> list[AsyncStream[Reply]]:
    """Starts the turns of a request, one for each choice; if there is an error, no turn has
    started. `instead` replaces a turn with a call that the model is unsure of."""
    launched: list[AsyncStream[Reply]] = []
    owner = find_owner()  # the same for all choices: they are one request
    max_tokens = options.max_tokens
    if max_tokens is None:
        max_tokens = max(1, service.model.engine.context_length - len(turn.tokens))
    try:
        for number in range(options.choices):
            stream = service.model.astream_turn(
                turn,
                max_tokens=max_tokens,
                sampling=_vary_seed(options.sampling, number),
                stop=options.stop,
                logprobs=options.logprobs,
                progress=options.reports_cached,
                ignore_eos=options.ignore_eos,
                trace=options.trace,
                min_confidence=options.confidence_policy.min_confidence,
                instead=instead,
                timeout=timeout,
                owner=owner,
            )
            launched.append(stream)
    except BaseException:
        for one in launched:
            one.cancel()
        raise
    return launched


def _vary_seed(sampling: Sampling, number: int) -> Sampling:
    """Gives each choice a different seed; with the same seed, all would be equal."""
    if sampling.seed is None or number == 0:
        return sampling
    return replace(sampling, seed=(sampling.seed + number) % SEEDS)


def _log(compiled: CompiledRequest) -> None:
    turn = compiled.turn
    LOG.info(
        "prompt of %d tokens, format %s, the reply begins %s, grammar %s, %d tools (%d refused)",
        len(turn.tokens),
        turn.format.name,
        turn.state.start.words,
        compiled.grammar_hash,
        len(turn.tools),
        len(turn.refused),
    )
    for refusal in turn.refused:
        LOG.warning("%s", refusal)
    if compiled.ignored_fields:
        LOG.warning("ignored fields: %s", ", ".join(map(repr, compiled.ignored_fields)))
    if compiled.service.settings.log_prompts:
        LOG.info("prompt: %r", turn.prompt.text)


async def _follow(stream: AsyncStream[Reply], number: int) -> AsyncGenerator[TurnEvents, None]:
    async for events in stream.batches():
        if not all(isinstance(event, ProgressMade) for event in events):
            yield number, events
    yield number, [await stream.result()]


async def _merge(streams: Sequence[AsyncIterator[TurnEvents]]) -> AsyncGenerator[TurnEvents, None]:
    queue: asyncio.Queue[TurnEvents | Exception | None] = asyncio.Queue()

    async def read(stream: AsyncIterator[TurnEvents]) -> None:
        try:
            async for come in stream:
                queue.put_nowait(come)
            queue.put_nowait(None)
        except Exception as error:  # raised where the queue is read
            queue.put_nowait(error)

    tasks = [asyncio.create_task(read(stream)) for stream in streams]
    try:
        running = len(tasks)
        while running:
            match await queue.get():
                case None:
                    running -= 1
                case Exception() as error:
                    raise error
                case come:
                    yield come
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
