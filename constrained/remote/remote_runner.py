"""Executes turns at a remote engine: admission, deadlines, cancellation, in one event loop."""

import asyncio
import os
import secrets
import threading
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from constrained.decode.filters.written_prefill import WrittenPrefill
from constrained.decode.metrics import Amount, Metrics
from constrained.decode.request import Generation, Request
from constrained.decode.schedule.admission import AdmissionOrder, Seat
from constrained.decode.schedule.workers import check_home
from constrained.decode.turn import make_cancelled
from constrained.errors import BusyError, ModelError, RemoteError, RequestError
from constrained.limits.deadline import Clock, Deadline
from constrained.remote.event_loop import EventLoopThread
from constrained.remote.identity import EngineIdentity
from constrained.remote.remote_turn import RemoteTurn
from constrained.remote.sampler import (
    EngineVersion,
    Sampled,
    SampleEnd,
    SampleRequest,
    TokenSampler,
)

POLL = 0.02  # seconds between two checks whether requests are still wanted
WAITS = (0.5, 1.0, 2.0, 4.0)  # seconds before each retry at a busy engine
MAX_WAIT_SECONDS = 10.0
"""Seconds. If an engine asks for a longer wait, the client gets the error."""


FAILURES = 5  # in succession
PAUSE = 10.0  # seconds


class CircuitBreaker:
    """Counts outages of one engine. While the circuit is open, requests fail at once; after the
    pause, one request tries the engine again."""

    def __init__(self, engine: str, clock: Clock):
        self._engine = engine
        self._clock = clock
        self._failures = 0
        self._tried_at = 0.0  # the time of the next try

    def check(self) -> None:
        """Raises RemoteError if the circuit is open; otherwise, the request may try the engine."""
        if self._failures < FAILURES:
            return
        now = self._clock()
        if now < self._tried_at:
            rest = self._tried_at - now
            message = f"{self._engine} failed {self._failures} times in a row"
            hint = f"It is tried again in {rest:.0f} s"
            raise RemoteError(message, hint=hint, retry_after=rest)
        self._tried_at = now + PAUSE  # other requests wait for the result of this try

    def note_success(self) -> None:
        """Notes that the engine has answered."""
        self._failures = 0

    def note_failure(self, error: Exception) -> None:
        """Notes that a request has failed; only outages count."""
        if isinstance(error, RemoteError) and error.is_outage:
            self._failures += 1
            self._tried_at = self._clock() + PAUSE


@dataclass(eq=False)
class RemoteSeat:
    """An admitted request.

    Args:
        turn: its turn so far; None: it has not started.
        fault: the reason of its cancellation; None: the client has left.
    """

    seat: Seat
    task: "asyncio.Task[None] | None" = None
    turn: RemoteTurn | None = None
    fault: Exception | None = None

    def cancel(self, fault: Exception | None) -> None:
        """Ends it at its next step, which closes the connection."""
        if self.task is not None and not self.task.cancelling():
            self.fault = fault
            self.task.cancel()


class RemoteRunner:
    """A `TurnRunner` at a remote engine.

    Args:
        identity: recognises the engine after a restart; None: it cannot change.
    """

    def __init__(
        self,
        sampler: TokenSampler,
        loop: EventLoopThread,
        *,
        identity: EngineIdentity[Any] | None,
        clock: Clock,
        max_waiting: int,
    ):
        self._sampler = sampler
        self._loop = loop
        self._identity = identity
        self._clock = clock
        self._max_waiting = max_waiting
        self._breaker = CircuitBreaker(sampler.name, clock)
        self._home = os.getpid()
        self._lock = threading.Lock()  # for the two fields below
        self._unfinished = 0
        self._is_closed = False
        self._idle = threading.Event()
        self._idle.set()
        # Only for the thread of the loop:
        self._order = AdmissionOrder(sampler.limits.sequences, clock)
        self._waiting: list[Seat] = []
        self._running: list[RemoteSeat] = []
        self._watch: asyncio.Task[None] | None = None
        self._end: Deadline | None = None

    @property
    def metrics(self) -> Metrics:
        none = Amount()
        running = len(self._running)
        waiting = max(0, self._unfinished - running)
        sequences = self._sampler.limits.sequences
        return Metrics(sequences, none, none, none, running=running, waiting=waiting)

    def submit(self, request: Request) -> Future[Generation]:
        check_home(self._home)
        request.options.sampling.check_tokens(len(self._sampler.vocabulary.tokens))
        self._sampler.check(self._write(request))
        check_request(request, self._sampler.name)
        seat = Seat(request)
        with self._lock:
            if self._is_closed:
                raise ModelError("the model is closed")
            if self._unfinished - len(self._running) >= self._max_waiting:
                message = f"{self._max_waiting} requests are waiting already"
                raise BusyError(message, hint="Try again later")
            self._unfinished += 1
            self._idle.clear()
        seat.result.add_done_callback(lambda done: self._note_done())
        self._loop.post(lambda: self._arrive(seat))
        return seat.result

    def _note_done(self) -> None:
        with self._lock:
            self._unfinished -= 1
            if not self._unfinished:
                self._idle.set()

    def _write(self, request: Request) -> SampleRequest:
        grammar = None
        if request.turn.grammar is not None:
            grammar = request.turn.grammar.lark
        return SampleRequest(
            name=secrets.token_hex(8),
            prompt=request.turn.prompt,
            grammar=grammar,
            max_tokens=request.options.max_tokens,
            sampling=request.options.sampling,
            logprobs=request.options.logprobs,
            ignore_eos=request.options.ignore_eos,
            cache_salt=request.turn.scope,
        )

    def _arrive(self, seat: Seat) -> None:
        self._order.note_arrival(seat)
        self._waiting.append(seat)
        self._admit()
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._watch_requests())

    def _admit(self) -> None:
        """Starts requests, up to the number that the engine works on at a time."""
        while self._waiting and len(self._running) < self._sampler.limits.sequences:
            running = [active.seat for active in self._running]
            admissible = self._order.sort(self._waiting, running)
            if not admissible:  # the next turn that ends makes room
                return
            seat = admissible[0]
            self._waiting.remove(seat)
            self._order.note_admission(seat, self._waiting)
            active = RemoteSeat(seat)
            self._running.append(active)
            active.task = asyncio.get_running_loop().create_task(self._carry_out(active))

    async def _carry_out(self, active: RemoteSeat) -> None:
        seat = active.seat
        try:
            generation = await self._generate(active)
        except asyncio.CancelledError:
            if active.fault is not None:
                seat.result.set_exception(active.fault)
            elif active.turn is not None:
                active.turn.cancel()
                seat.result.set_result(active.turn.result())
            else:
                seat.result.set_result(make_cancelled(seat.request))
        except Exception as error:  # any error, since nothing else would report it
            self._note_failure(error)
            seat.result.set_exception(error)
        else:
            seat.result.set_result(generation)
        finally:
            self._running.remove(active)
            self._order.note_end(active.seat)
            self._admit()

    async def _generate(self, active: RemoteSeat) -> Generation:
        request = active.seat.request
        self._breaker.check()
        turn = RemoteTurn(self._sampler, request, clock=self._clock)
        active.turn = turn
        sampling_request = self._write(request)
        while turn.finish is None:
            if turn.needs_closing and request.turn.build_closing is not None:
                turn.close_reasoning()
                grammar = await asyncio.to_thread(request.turn.build_closing)
                sampling_request = replace(sampling_request, grammar=grammar.lark)
            await self._sample_patiently(turn, sampling_request)
        self._breaker.note_success()
        return turn.result()

    def _note_failure(self, error: Exception) -> None:
        self._breaker.note_failure(error)
        if self._identity is not None:
            self._identity.note_failure(error)

    async def _sample_patiently(self, turn: RemoteTurn, request: SampleRequest) -> None:
        """Like `_sample`, with a few retries if the engine is busy."""
        for wait in WAITS:
            try:
                return await self._sample(turn, request)
            except RemoteError as error:
                if error.retry_after is None or error.retry_after > MAX_WAIT_SECONDS:
                    raise
                if self._identity is not None:
                    self._identity.note_failure(error)
                wait = max(wait, error.retry_after)
            await asyncio.sleep(wait)
        return await self._sample(turn, request)

    async def _sample(self, turn: RemoteTurn, request: SampleRequest) -> None:
        """Takes the tokens of one stream, until the turn is over or needs another stream."""
        if self._identity is not None:
            await self._identity.confirm()
        # Closing the stream early tells the engine to stop.
        async with aclosing(self._sampler.open(turn.ask(request))) as stream:
            async for sampled in stream:
                turn.take(sampled)
                if turn.finish is not None or turn.needs_closing:
                    if self._identity is not None:
                        self._identity.note_answer(_read_version(sampled))
                    return
        raise turn.fail_cut()

    async def _watch_requests(self) -> None:
        """Ends requests whose clients have left, and late ones, until none are left."""
        while self._waiting or self._running:
            now = self._clock()
            if self._end and self._end.is_over(now):
                self._fail_all(self._end.fail_draining())
            for seat in list(self._waiting):
                self._drop_waiting(seat, now)
            for active in list(self._running):
                self._stop_running(active, now)
            await asyncio.sleep(POLL)

    def _drop_waiting(self, seat: Seat, now: float) -> None:
        deadline = seat.request.deadline
        if not seat.request.is_wanted():
            self._waiting.remove(seat)
            seat.result.set_result(make_cancelled(seat.request))
        elif deadline and deadline.is_over(now):
            self._waiting.remove(seat)
            seat.result.set_exception(deadline.fail_waiting())

    def _stop_running(self, active: RemoteSeat, now: float) -> None:
        request, turn = active.seat.request, active.turn
        deadline = request.deadline
        if not request.is_wanted():
            active.cancel(None)
        elif deadline and deadline.is_over(now):
            size = len(request.turn.prompt)
            read, generated = 0, 0
            if turn is not None:
                read, generated = size - turn.input.unread, turn.generated
            active.cancel(deadline.fail_running(read, size, generated))

    def _fail_all(self, error: Exception) -> None:
        while self._waiting:
            self._waiting.pop().result.set_exception(error)
        for active in self._running:
            active.cancel(error)

    def drain(self, end: Deadline) -> None:
        self._end = end

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._idle.wait()


def _read_version(sampled: Sampled) -> EngineVersion:
    """Returns the version of the engine, from the end of a stream; empty if the stream was left
    before its end."""
    return sampled.version if isinstance(sampled, SampleEnd) else EngineVersion()


def check_request(request: Request, engine: str) -> None:
    """Refuses options that need the engine's logits."""
    turn, options = request.turn, request.options
    is_free = turn.matcher is None
    refused = (
        (turn.prefill != WrittenPrefill(), "/prefill", "cannot continue a text of the client"),
        (options.trace is not None, "/trace", "does not report what decides its tokens"),
        (options.ignore_eos and not is_free, "/ignore_eos", "ends where the grammar lets it"),
    )
    for is_asked, where, problem in refused:
        if is_asked:
            message = f"{engine} samples the tokens, and {problem}"
            raise RequestError(message, where=where, hint="Leave it out")
