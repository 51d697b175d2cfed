"""Continuous batching: requests get sequences, and each step decodes one batch for all of them."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from constrained.decode.kv.sequences import SPARED, Sequences
from constrained.decode.kv.snapshots import NO_CACHE, Cache
from constrained.decode.metrics import Metrics
from constrained.decode.request import Finish, Generation, Request, Usage
from constrained.decode.schedule.active_turn import ActiveTurn
from constrained.decode.schedule.admission import AdmissionOrder, Seat
from constrained.decode.schedule.decode_overlap import DecodeOverlap
from constrained.decode.schedule.drafting import Drafting
from constrained.decode.schedule.fair_share import FairShare
from constrained.decode.schedule.passes import even_out
from constrained.decode.turn_decoder import DecodedRows, TurnDecoder
from constrained.engine.batch import sort_chunks
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError
from constrained.limits.deadline import Clock, Deadline
from grammars.wire.format import count_common

LOG = logging.getLogger(__name__)
BLOCK = 64  # prompt tokens of one decode, if `deterministic`
STEP = 512  # maximum tokens of one decode; other turns wait as long as these take
PROMPT_STEP = 64
"""Maximum prompt tokens of one decode on the CPU while turns are being written. On 2 cores a decode
of 512 takes 8 times as long and hardly less a token. A GPU needs large batches."""
BACKGROUND_STEP = 16  # maximum prompt tokens of a background request while others are running


class Schedule:
    """The requests of one engine, waiting and running. Not thread-safe.

    A waiting request is admitted when a sequence is idle, in the order of `AdmissionOrder`: many
    requests of one owner delay a request of another owner by one turn at most, or not at all if the
    other one was there not long ago and there are several sequences. Each step decodes
    one batch: the next tokens of all running turns, and pieces of the prompts that are not read
    yet, the shortest prompt first (chunked prefill). Prompts of background requests get small
    shares while others run. The tokens that a prompt shares with a sequence are not computed again
    (prefix cache). A turn whose masks take long pauses for some steps (`FairShare`).

    Args:
        engine: runs the model.
        step: the maximum number of tokens of one decode.
        deterministic: the logits of a request do not depend on other requests, earlier ones
            included. Each step then decodes one turn alone, its prompt in blocks; this is slower.
        clock: in seconds; for deadlines and for the timings of turns.
        cpu_clock: see `FairShare`.
        cache: the room for snapshots of sequences that are overwritten.

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
        # To defer text, a turn must be able to discard a decode. Models with checkpoints cannot,
        # and if `deterministic`, the discarded tokens would change the logits of others.
        self._defers = engine.offloads and not deterministic and not engine.needs_checkpoints
        self._overlap = DecodeOverlap(self._defers)
        self._step = step
        self._deterministic = deterministic
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._drafting = Drafting(evens_out=engine.splits_uneven)
        self._waiting: deque[Seat] = deque()
        self._running: dict[int, ActiveTurn] = {}  # by the number of the sequence
        self._over = deque[ActiveTurn]()  # finished; their callers do not have the result yet
        self._errors: dict[int, Exception] = {}  # of the work during a decode, by sequence
        self.end: Deadline | None = None
        self._decode_seconds = 0.0  # of the last step
        self._steps = 0
        self._order = AdmissionOrder(engine.max_sequences, clock)

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
        """Does one step: admits requests, decodes a batch, and takes a token for each turn.

        If another device decodes, the text of these tokens is written during the next decode, see
        `_work_during_decode`. If the text ends or changes a turn, the turn discards that decode.
        """
        try:
            self._take_step()
        finally:
            if not self._running:  # there is no next decode
                self._hand_over()

    def _take_step(self) -> None:
        self._steps += 1
        self._errors.clear()
        self._drop_unwanted()
        self._drop_late()
        self._admit()
        chunks = self._choose_chunks()
        while chunks:
            try:
                logits = self._decode(chunks)
            except ContextError as error:
                # No sequence has changed: llama.cpp refuses a batch without room as a whole.
                if self._settle_changed():  # a turn that is over needs no room
                    chunks = self._choose_chunks()
                else:
                    chunks = self._choose_fewer_chunks(chunks, error)
                continue
            except Exception as error:  # no sequence of the batch has got its tokens
                self._settle_changed()
                for chunk in chunks:
                    if chunk.sequence in self._running:
                        self._fail(chunk.sequence, error)
                return
            self._advance(chunks, logits, changed=self._settle_changed())
            return

    def clear(self, error: Exception) -> None:
        """Fails all requests with an error, and forgets all tokens."""
        self._fail_all(error)
        self._sequences.clear()
        self._overlap.close()

    def _fail_all(self, error: Exception) -> None:
        self._errors.clear()
        self._hand_over()
        for number in list(self._running):
            if self._settle(number):
                self._fail(number, error)
        self._hand_over()
        while self._waiting:
            self._waiting.popleft().result.set_exception(error)

    def save(self) -> None:
        """Writes the states of all sequences to files, if the cache has a folder. No request may
        be running."""
        self._sequences.save()

    def _drop_unwanted(self) -> None:
        """Ends the requests whose caller has gone."""
        for seat in list(self._waiting):
            if not seat.request.is_wanted():
                self._waiting.remove(seat)
                usage = Usage(len(seat.request.turn.prompt), 0, 0)
                seat.result.set_result(Generation((), "", (), finish=Finish.CANCELLED, usage=usage))
        for number, running in list(self._running.items()):
            if not running.seat.request.is_wanted() and self._settle(number):
                running.turn.cancel()
                self._retire(number)

    def _drop_late(self) -> None:
        """Fails the requests whose deadline is over."""
        now = self._clock()
        if self.end and self.end.is_over(now):
            self._fail_all(self.end.fail_draining())
        for seat in list(self._waiting):
            deadline = seat.request.deadline
            if deadline and deadline.is_over(now):
                self._waiting.remove(seat)
                seat.result.set_exception(deadline.fail_waiting())
        for number, running in list(self._running.items()):
            deadline = running.seat.request.deadline
            if deadline and deadline.is_over(now) and self._settle(number):
                turn = running.turn
                size = len(turn.input.prompt)
                read = size - turn.input.unread
                self._fail(number, deadline.fail_running(read, size, turn.generated))

    def _admit(self) -> None:
        """Admits waiting requests while there is an idle sequence."""
        while self._waiting and self._find_idle():
            seat = self._choose_seat()
            if seat is None:
                return
            self._deliver_all()  # restoring a snapshot may take long
            self._waiting.remove(seat)
            self._order.note_admission(seat, self._waiting)
            self._begin(seat, self._find_idle())

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
        """True if another request of the same scope is reading much of the same prompt: it is
        cheaper to wait and copy it. Background requests are not waited for: they are slow."""
        scope = request.turn.scope
        if scope is None:
            return False
        prompt = [*request.turn.prompt]
        shared = 0
        for running in self._running.values():
            other = running.seat.request
            is_slow = other.background and not request.background
            if running.turn.input.is_reading and not is_slow and other.turn.scope == scope:
                shared = max(shared, count_common(running.turn.input.prompt, prompt))
        return shared > SPARED and shared > self._sequences.find(prompt, scope) + SPARED

    def _begin(self, seat: Seat, idle: list[int]) -> None:
        request = seat.request
        prompt, breakpoints = request.turn.prompt, request.turn.breakpoints
        try:
            match = self._sequences.claim(prompt, idle, request.turn.scope)
            number = match.sequence
            self._sequences.pin(
                number, len(prompt), boundaries=breakpoints.places, closed=breakpoints.closed
            )
            turn = TurnDecoder(self._sequences, match, request, clock=self._clock)
        except Exception as error:  # the request is in no queue now, so it has to be failed here
            seat.result.set_exception(error)
            return
        self._running[number] = ActiveTurn(seat, turn, FairShare(self._clock, self._cpu_clock))
        if turn.finish is not None:
            self._retire(number)

    def _choose_chunks(self, *, drafts: bool = True) -> list[Chunk]:
        """Returns the chunks of the next decode."""
        if self._deterministic:
            return self._choose_one()
        spare = self._sequences.engine.max_drafted if drafts else 0
        chunks = self._choose_many(spare)
        if not self._sequences.engine.splits_uneven:
            return chunks
        reading = set[int]()
        for chunk in chunks:
            if self._running[chunk.sequence].turn.input.is_reading:
                reading.add(chunk.sequence)
        return even_out(chunks, reading)

    def _choose_one(self) -> list[Chunk]:
        """Returns the next chunk of one turn; turns alternate (round robin)."""
        if not self._running:
            return []
        number, running = next(iter(self._find_due().items()))
        self._running[number] = self._running.pop(number)  # to the end of the line
        unread = running.turn.input.unread
        # The order in which llama.cpp's kernels add up depends on the size of the batch, and so do
        # the last digits of the logits.
        if not unread:
            return [running.turn.next_chunk(1)]
        block = BLOCK - running.turn.input.position % BLOCK
        return [running.turn.next_chunk(min(unread, block))]

    def _choose_many(self, spare: int) -> list[Chunk]:
        """Returns the next chunk of each turn that does not pause. Turns with few pending tokens
        come first. Then one prompt after the other gets as much of the batch as is left, or less of
        it, so that those who read a stream do not wait long. Drafts add up to `spare` tokens."""
        has_live = any(not running.seat.request.background for running in self._running.values())
        due = self._find_due()
        oldest = self._find_oldest_prompt(due)

        def rank(item: tuple[int, ActiveTurn]) -> tuple[bool, bool, int]:
            number, running = item
            return running.turn.input.is_reading, number != oldest, running.turn.input.pending

        order = sorted(due.items(), key=rank)
        drafting = _find_drafting(due, has_live=has_live)
        drafts = self._drafting.draft(drafting, spare, together=len(due))
        chunks: list[Chunk] = []
        room = self._step
        prompts = self._step
        # One that pauses counts, too: a long decode would make its pause longer.
        if not self._sequences.engine.offloads and _has_writer(self._running.values()):
            prompts = PROMPT_STEP
        for done, (number, running) in enumerate(order):
            rest = len(order) - done
            reads = running.turn.input.is_reading
            available = min(room, prompts) if reads else room
            # A checkpoint can only be taken where a decode ends.
            share = max(1, available - (rest - 1))  # each turn after it gets at least one
            share = min(share, self._sequences.until_stop(number))
            if has_live and running.seat.request.background:
                share = min(share, BACKGROUND_STEP)
            chunk = running.turn.next_chunk(share, drafts.get(number, ()))
            room -= len(chunk.tokens)
            if reads:
                prompts -= len(chunk.tokens)
            chunks.append(chunk)
        return sort_chunks(chunks)

    def _find_oldest_prompt(self, due: Mapping[int, ActiveTurn]) -> int | None:
        """Returns the sequence whose prompt is read first in this step because it was admitted
        first; None: the shortest is.

        The shortest first gives the shortest waits on average. Of n prompts, the oldest comes first
        in every n-th step, so that a long one does not wait for ever.
        """
        prompts = [number for number, running in due.items() if running.turn.input.is_reading]
        return prompts[0] if prompts and self._steps % len(prompts) == 0 else None

    def _find_due(self) -> dict[int, ActiveTurn]:
        """Returns the running turns that do not pause; all of them, if all pause."""
        due = {n: running for n, running in self._running.items() if not running.share.sits_out}
        return due or self._running

    def _choose_fewer_chunks(self, chunks: Sequence[Chunk], error: ContextError) -> list[Chunk]:
        """Returns the chunks to decode after the context was full: without drafts. If there were
        none, an idle sequence is emptied; if there is none, the newest request fails."""
        has_drafts = any(chunk.drafted for chunk in chunks)
        if not has_drafts and not self._sequences.forget_oldest(self._find_idle()):
            newest = list(self._running)[-1]
            self._fail(newest, error)
            self._sequences.release(newest)
        return self._choose_chunks(drafts=False)

    def _decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        asked = {chunk.sequence for chunk in chunks if chunk.wanted}
        with self._overlap.working(lambda: self._work_during_decode(asked)):
            since = self._clock()
            logits = self._sequences.decode(chunks)
            self._decode_seconds = self._clock() - since
        if not any(self._running[chunk.sequence].turn.input.is_reading for chunk in chunks):
            self._drafting.note_decode(self._sequences.engine.last_decode, self._decode_seconds)
        return logits

    def _work_during_decode(self, asked: Set[int]) -> None:
        """Works during a decode, without touching the engine: delivers results and text of the
        tokens before it, then computes the masks for the tokens after it, of the sequences that get
        logits (`asked`)."""
        self._deliver()
        for number in asked - self._errors.keys():
            self._work_for(number, self._running[number].turn.prepare)

    def _deliver(self) -> None:
        """Hands over the results of finished turns, and writes the text of the others."""
        self._hand_over()
        for number, running in self._running.items():
            self._work_for(number, running.turn.write_text)

    def _deliver_all(self) -> None:
        """Delivers before long work rather than after it, and ends or changes the turns whose
        text asks for it."""
        if not self._defers:  # everything is delivered already
            return
        self._deliver()
        self._settle_changed()
        self._hand_over()

    def _work_for(self, number: int, work: Callable[[], None]) -> None:
        try:
            with self._running[number].share.measure():
                work()
        except Exception as error:  # perhaps of the caller's sink; other turns go on
            self._errors[number] = error

    def _settle_changed(self) -> set[int]:
        """Ends or changes the turns whose text asks for it, and fails those with an error. They
        discard the last decode. Returns their sequences."""
        changed = set[int]()
        for number, running in list(self._running.items()):
            if number in self._errors:
                self._fail(number, self._errors.pop(number))
            elif running.turn.has_verdict:
                self._settle(number, forgets=True)
            else:
                continue
            changed.add(number)
        return changed

    def _settle(self, number: int, *, forgets: bool = False) -> bool:
        """Writes the deferred text of a turn; False if the turn is over then.

        Args:
            number: of its sequence.
            forgets: the turn discards the last decode first.
        """
        running = self._running[number]
        try:
            if forgets:
                running.turn.forget_decode()
            running.turn.settle()
        except Exception as error:  # only this turn fails
            self._fail(number, error)
            return False
        if running.turn.finish is None:
            return True
        self._retire(number)
        return False

    def _advance(self, chunks: Sequence[Chunk], logits: np.ndarray, *, changed: Set[int]) -> None:
        """Gives each turn its logits, and retires the turns that are over.

        Args:
            chunks: those that were decoded.
            logits: one row for each wanted position, in the order of the chunks.
            changed: the sequences whose logits are discarded.
        """
        under_way = len(self._running)
        slot = 0
        for chunk in chunks:
            if chunk.sequence not in changed:
                rows = DecodedRows(slot, logits[slot : slot + chunk.wanted])
                self._advance_turn(chunk, rows, under_way)
            slot += chunk.wanted

    def _advance_turn(self, chunk: Chunk, rows: DecodedRows, under_way: int) -> None:
        running = self._running[chunk.sequence]
        try:
            running.turn.note_decoded(chunk)
            if chunk.wanted:
                with running.share.measure():
                    running.turn.advance(rows, defers=self._defers)
                running.share.charge(self._decode_seconds, under_way)
        except Exception as error:  # only this turn fails
            self._fail(chunk.sequence, error)
        else:
            if running.turn.finish is not None:
                self._retire(chunk.sequence)

    def _retire(self, number: int) -> None:
        """Ends a turn. Its caller gets the result now or, if text is deferred, during the next
        decode."""
        running = self._running.pop(number)
        self._order.note_end(running.seat)
        self._over.append(running)
        if not self._defers:
            self._hand_over()

    def _hand_over(self) -> None:
        """Gives the callers the results of the turns that are over."""
        while self._over:
            running = self._over.popleft()
            try:
                generation = running.turn.result()
            except Exception as error:  # perhaps of the caller's sink, which gets the last events
                _end_in_error(running, error)
            else:
                running.turn.close()
                running.seat.result.set_result(generation)

    def _fail(self, number: int, error: Exception) -> None:
        """Ends the request of a sequence with an error; the others go on."""
        running = self._running.pop(number)
        self._order.note_end(running.seat)
        _end_in_error(running, error)


def _find_drafting(due: Mapping[int, ActiveTurn], *, has_live: bool) -> dict[int, ActiveTurn]:
    """Returns the turns that may get a draft: their requests allow it, their prompts are read, and
    while others run (`has_live`), they are not of the background."""
    drafting = dict[int, ActiveTurn]()
    for number, running in due.items():
        is_slow = has_live and running.seat.request.background
        if running.turn.drafts and not running.turn.input.is_reading and not is_slow:
            drafting[number] = running
    return drafting


def _has_writer(turns: Iterable[ActiveTurn]) -> bool:
    """True if one of these turns is being written, and is not of the background."""
    return any(
        not running.turn.input.is_reading and not running.seat.request.background
        for running in turns
    )


def _end_in_error(running: ActiveTurn, error: Exception) -> None:
    """Gives a caller the error of its turn, even if closing the turn fails, too."""
    try:
        running.turn.close()
        running.turn.note_failure()
    except Exception:  # perhaps of the caller's function for traces: its disk may be full
        LOG.exception("the trace of a failed turn could not be delivered")
    finally:
        running.seat.result.set_exception(error)
