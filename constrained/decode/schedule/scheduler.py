"""Continuous batching: requests get sequences, and each step decodes one batch for all of them."""

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from constrained.decode.kv.sequences import SPARED, Sequences
from constrained.decode.kv.snapshots import NO_CACHE, Cache
from constrained.decode.metrics import Metrics
from constrained.decode.request import Request
from constrained.decode.schedule.active_turn import ActiveTurn, FairShare
from constrained.decode.schedule.admission import AdmissionOrder, Seat
from constrained.decode.schedule.batch_plan import BLOCK, STEP, BatchPlan
from constrained.decode.schedule.decode_overlap import DecodeOverlap
from constrained.decode.turn import make_cancelled, make_generation
from constrained.decode.turn_decoder import DecodedRows, TurnDecoder
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError
from constrained.limits.deadline import Clock, Deadline
from grammars.wire.format import count_common

LOG = logging.getLogger(__name__)


class Schedule:
    """The requests of one engine, waiting and running. Not thread-safe.

    A waiting request is admitted when a sequence is idle, in the order of `AdmissionOrder`: many
    requests of one owner delay a request of another owner by one turn at most. Each step decodes
    one batch: the next tokens of all running turns, and pieces of the prompts that are not read
    yet (`BatchPlan`). The tokens that a prompt shares with a sequence are not computed again
    (prefix cache). A turn whose masks take long pauses for some steps (`FairShare`).

    Args:
        step: the maximum number of tokens of one decode.
        deterministic: the logits of a request do not depend on other requests, earlier ones
            included. Each step then decodes one turn alone, its prompt in blocks; this is slower.
        cpu_clock: see `FairShare`.

    Attributes:
        end: requests that are not done by then fail; None: there is no such deadline.

    Raises:
        RequestError: the folder of the cache cannot be used.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        step: int = STEP,
        deterministic: bool = False,
        clock: Clock = time.monotonic,
        cpu_clock: Clock = time.thread_time,
        cache: Cache = NO_CACHE,
    ):
        self._sequences = Sequences(engine, BLOCK if deterministic else 1, cache)
        self._plan = BatchPlan(self._sequences, step=step, deterministic=deterministic)
        self._overlap = DecodeOverlap(engine.offloads)
        self._order = AdmissionOrder(engine.max_sequences, clock)
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._waiting: deque[Seat] = deque()
        self._running: dict[int, ActiveTurn] = {}  # by the number of the sequence
        self.end: Deadline | None = None

    @property
    def is_idle(self) -> bool:
        """True if no request is waiting or running."""
        return not (self._waiting or self._running)

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._waiting)

    @property
    def metrics(self) -> Metrics:
        """The figures of the requests and of the KV cache; any thread may read them."""
        cached = self._sequences.metrics
        return replace(cached, running=len(self._running), waiting=len(self._waiting))

    def add(self, seat: Seat) -> None:
        """Queues a request."""
        self._order.note_arrival(seat)
        self._waiting.append(seat)

    def step(self) -> None:
        """Does one step: admits requests, decodes a batch, and takes a token for each turn."""
        self._drop()
        self._admit()
        chunks = self._plan.choose(self._running)
        while chunks:
            try:
                logits, seconds = self._decode(chunks)
            except ContextError as error:  # no sequence has changed
                chunks = self._choose_fewer(chunks, error)
            except Exception as error:  # no sequence of the batch has got its tokens
                for chunk in chunks:
                    self._fail(chunk.sequence, error)
                break
            else:
                self._advance(chunks, logits, seconds)
                break
        if not self._running:
            self._overlap.deliver()

    def _decode(self, chunks: Sequence[Chunk]) -> tuple[np.ndarray, float]:
        asked = [self._running[chunk.sequence] for chunk in chunks if chunk.wanted]
        is_reading = any(self._running[chunk.sequence].is_reading for chunk in chunks)
        with self._overlap.working(asked):
            since = self._clock()
            logits = self._sequences.decode(chunks)
            seconds = self._clock() - since
        if not is_reading:
            self._plan.note_decode(seconds)
        return logits, seconds

    def _choose_fewer(self, chunks: Sequence[Chunk], error: ContextError) -> list[Chunk]:
        """Returns the chunks to decode after the context was full: without drafts. If there were
        none, an idle sequence is emptied; if there is none, the newest request fails."""
        has_drafts = any(chunk.drafted for chunk in chunks)
        if not has_drafts and not self._sequences.forget_oldest(self._find_idle()):
            newest = list(self._running)[-1]
            self._fail(newest, error)
            self._sequences.release(newest)
        return self._plan.choose(self._running, has_drafts=False)

    def _advance(self, chunks: Sequence[Chunk], logits: np.ndarray, seconds: float) -> None:
        under_way = len(self._running)
        first = 0
        for chunk in chunks:
            rows = DecodedRows(first, logits[first : first + chunk.wanted])
            first += chunk.wanted
            active = self._running[chunk.sequence]
            try:
                active.decoder.note_decoded(chunk)
                if chunk.wanted:
                    with active.share:
                        active.decoder.advance(rows)
                    active.share.charge(seconds, under_way)
            except Exception as error:  # only this turn fails
                self._fail(chunk.sequence, error)
            else:
                self._retire_finished(chunk.sequence)

    def _drop(self) -> None:
        """Ends the requests whose caller has gone, and fails those whose deadline is over."""
        now = self._clock()
        if self.end and self.end.is_over(now):
            self._fail_all(self.end.fail_draining())
        for seat in list(self._waiting):
            deadline = seat.request.deadline
            if not seat.request.is_wanted():
                self._waiting.remove(seat)
                seat.finish(make_cancelled(seat.request))
            elif deadline and deadline.is_over(now):
                self._waiting.remove(seat)
                seat.fail(deadline.fail_waiting())
        for number, active in list(self._running.items()):
            deadline = active.seat.request.deadline
            if not active.seat.request.is_wanted():
                active.decoder.turn.cancel()
                self._retire_finished(number)
            elif deadline and deadline.is_over(now):
                input, generated = active.decoder.input, active.decoder.turn.generated
                size = len(input.prompt)
                self._fail(number, deadline.fail_running(size - input.unread, size, generated))

    def _admit(self) -> None:
        while self._waiting and (idle := self._find_idle()):
            seat = self._choose_seat()
            if seat is None:
                return
            self._overlap.deliver()  # restoring a snapshot may take long
            self._waiting.remove(seat)
            self._order.note_admission(seat, self._waiting)
            try:
                self._begin(seat, idle)
            except Exception as error:  # the request is in no queue now: nobody else fails it
                seat.fail(error)

    def _choose_seat(self) -> Seat | None:
        """Returns the next request to admit; None if all wait for a prompt that is being read, or
        the idle sequence is kept for another owner."""
        running = [active.seat for active in self._running.values()]
        for seat in self._order.sort(self._waiting, running):
            # A request that waits for such a prompt does not hold up those after it.
            if not self._is_being_read(seat.request):
                return seat
        return None

    def _find_idle(self) -> list[int]:
        return [n for n in range(self._sequences.engine.max_sequences) if n not in self._running]

    def _is_being_read(self, request: Request) -> bool:
        """True if it is cheaper to wait until another request has read the same prompt."""
        turn, shared = request.turn, 0
        for active in self._running.values():
            is_same = turn.scope is not None and active.seat.request.turn.scope == turn.scope
            if active.is_reading and is_same:
                shared = max(shared, count_common(active.decoder.input.prompt, [*turn.prompt]))
        return shared > SPARED and shared - SPARED > self._sequences.find(turn.prompt, turn.scope)

    def _begin(self, seat: Seat, idle: list[int]) -> None:
        turn = seat.request.turn
        match = self._sequences.claim(turn.prompt, idle, turn.scope)
        number = match.sequence
        self._sequences.pin(
            number,
            len(turn.prompt),
            boundaries=turn.breakpoints.places,
            closed=turn.breakpoints.closed,
        )
        request = replace(seat.request, sink=self._overlap.find_sink(seat))
        decoder = TurnDecoder(self._sequences, match, request, clock=self._clock)
        share = FairShare(self._clock, self._cpu_clock)
        self._running[number] = ActiveTurn(seat, decoder, share)
        self._retire_finished(number)

    def _retire_finished(self, number: int) -> None:
        """If a turn is over, frees its sequence, and gives its caller the result."""
        active = self._running[number]
        if active.decoder.turn.finish is None:
            return
        try:
            generation = make_generation(active.decoder.turn)
        except Exception as error:  # perhaps of the caller's sink, which gets the last events
            self._fail(number, error)
            return
        self._remove(number)
        self._overlap.post(partial(active.seat.finish, generation))

    def _fail(self, number: int, error: Exception) -> None:
        """Ends the request of a sequence with an error; the others go on."""
        active = self._remove(number)
        self._overlap.post(partial(active.seat.fail, error))

    def _remove(self, number: int) -> ActiveTurn:
        """Frees the sequence of a turn. Its tokens stay in the KV cache, for the next turn."""
        active = self._running.pop(number)
        self._order.note_end(active.seat)
        active.decoder.close()
        return active

    def _fail_all(self, error: Exception) -> None:
        for number in list(self._running):
            self._fail(number, error)
        while self._waiting:
            self._waiting.popleft().fail(error)

    def clear(self, error: Exception) -> None:
        """Fails all requests with an error, and forgets all tokens."""
        self._fail_all(error)
        self._overlap.close()
        self._sequences.clear()

    def save(self) -> None:
        """Writes the states of all sequences to files, if the cache has a folder. No request may
        be running."""
        self._sequences.save()
