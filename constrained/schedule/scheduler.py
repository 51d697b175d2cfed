"""Continuous batching: requests get sequences, and each step decodes a batch for all of them."""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from constrained.deadline import Clock, Deadline
from constrained.decode.drafts.draft_model import DraftModel
from constrained.decode.request import Finish, Generation, Request, Usage
from constrained.decode.turn_decoder import DecodedRows, TurnDecoder
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError
from constrained.kv.sequences import SPARED, Sequences
from constrained.kv.snapshots import NO_CACHE, Cache
from constrained.metrics import Metrics
from constrained.schedule.admission import AdmissionOrder, Seat
from constrained.schedule.decode_overlap import DecodeOverlap
from constrained.schedule.fair_share import FairShare
from grammars.wire.format import count_common

LOG = logging.getLogger(__name__)
BLOCK = 64  # tokens of a prompt that are decoded together where that has to be always the same
STEP = 512  # tokens of one decode: so long does a prompt keep the others waiting
BACKGROUND_STEP = 16  # of them for a request that is in no hurry, while others are under way


@dataclass(frozen=True)
class ActiveTurn:
    """A request that has been admitted to a sequence."""

    seat: Seat
    turn: TurnDecoder
    share: FairShare


class Schedule:
    """The requests of one engine. Not for two threads at once.

    Requests are admitted as soon as a sequence is free: those of the owner who has the fewest under
    way, then of the one who was admitted, or came, longest ago, then in their order. So many
    requests of one owner, or many choices of one request, delay those of another by a turn at most.
    Requests in the background are admitted behind all others; while one of those is under way,
    prompts in the background are read in small pieces. Each step decodes what those under way have
    to say next, and a part of the prompts that are not read yet, in equal shares (chunked prefill).
    A turn whose masks take long sits out steps, so that it delays the others by its share at most.
    The tokens that a prompt has in common with a sequence are not computed again (prefix cache).

    Args:
        engine: runs the model.
        step: tokens of one decode, at most.
        deterministic: no request changes the numbers that are computed for another one, or for a
            later one: one turn a step, its prompt in blocks, then token by token. It is slower.
        clock: for the deadlines of the requests and the timings of the turns.
        cpu_clock: for what each turn takes of the threads; see `FairShare`.
        cache: the room for the states of sequences that others take over.
        draft_model: drafts for all turns, with as many sequences; None: there is none.

    Attributes:
        end: what is not done by then fails; None: there is no end in sight.

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
        draft_model: DraftModel | None = None,
    ):
        self._sequences = Sequences(engine, BLOCK if deterministic else 1, cache)
        self._overlap = DecodeOverlap(engine.offloads)
        # A decode that counts for nothing is taken back, which not every model can; and its tokens
        # would change the numbers of others.
        self._defers = engine.offloads and not deterministic and not engine.needs_checkpoints
        self._step = step
        self._deterministic = deterministic
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._draft_model = draft_model
        self._waiting: deque[Seat] = deque()
        self._running: dict[int, ActiveTurn] = {}  # by the number of the sequence
        self._over = deque[ActiveTurn]()  # their callers do not have the result yet
        self._errors: dict[int, Exception] = {}  # of work while the model decoded, by sequence
        self.end: Deadline | None = None
        self._decode_seconds = 0.0  # of the last step
        self._order = AdmissionOrder()

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to do."""
        return not (self._waiting or self._running)

    @property
    def waiting(self) -> int:
        """The number of requests that are not admitted yet."""
        return len(self._waiting)

    @property
    def metrics(self) -> Metrics:
        """The figures of the requests and of the KV cache; also for other threads."""
        cached = self._sequences.metrics
        return replace(cached, running=len(self._running), waiting=len(self._waiting))

    def add(self, seat: Seat) -> None:
        """Queues a request."""
        self._order.note_arrival(seat)
        self._waiting.append(seat)

    def step(self) -> None:
        """Schedules, decodes, and takes the tokens: one decode of all turns under way.

        Where another device decodes, the text of these tokens is written during the next decode:
        see `_work_behind`. If a text ends or changes its turn, that decode counts for nothing
        there.
        """
        try:
            self._take_step()
        finally:
            if not self._running:  # there is no next decode
                self._hand_over()

    def _take_step(self) -> None:
        self._errors.clear()
        self._drop_unwanted()
        self._drop_late()
        self._admit()
        if self._draft_model is not None:  # which is about to be asked
            self._deliver_all()
        chunks = self._choose_chunks()
        while chunks:
            try:
                logits = self._decode(chunks)
            except ContextError as error:
                # Nothing has changed: llama.cpp does not begin a batch that it finds no room for.
                if self._settle_changed():  # a turn that is over needs none
                    chunks = self._choose_chunks()
                else:
                    chunks = self._choose_fewer_chunks(chunks, error)
                continue
            except Exception as error:  # whatever it is, no sequence of the batch has its tokens
                self._settle_changed()
                for chunk in chunks:
                    if chunk.sequence in self._running:
                        self._fail(chunk.sequence, error)
                return
            self._advance(chunks, logits, changed=self._settle_changed())
            return

    def clear(self, error: Exception) -> None:
        """Forgets all tokens; requests that are not done fail with the error."""
        self._fail_all(error)
        self._sequences.clear()
        self._overlap.close()

    def close(self, error: Exception) -> None:
        """Does what `clear` does, and closes the draft model."""
        self.clear(error)
        if self._draft_model is not None:
            self._draft_model.close()

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
        """Writes the state of all sequences to files, if the cache has a folder; nothing may be
        under way."""
        self._sequences.save()

    def _drop_unwanted(self) -> None:
        """Ends the requests whose caller has gone away."""
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
        """Fails the requests whose time is over."""
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
        """Gives waiting requests a sequence, as long as there is one."""
        while self._waiting and self._find_idle():
            seat = self._choose_seat()
            if seat is None:
                return
            self._deliver_all()  # it may have a snapshot to restore
            self._waiting.remove(seat)
            self._order.note_admission(seat, self._waiting)
            self._begin(seat, self._find_idle())

    def _choose_seat(self) -> Seat | None:
        """The next request to admit; None if all wait to copy the prompt of another."""
        running = [active.seat for active in self._running.values()]
        for seat in self._order.sort(self._waiting, running):
            # One that waits to copy the prompt of another is overtaken by those behind it.
            if not self._is_being_read(seat.request):
                return seat
        return None

    def _find_idle(self) -> list[int]:
        return [n for n in range(self._sequences.engine.max_sequences) if n not in self._running]

    def _is_being_read(self, request: Request) -> bool:
        """True if much of the prompt is about to be computed for another request of its scope: it
        is worth waiting for, since it can be copied. One in the background takes too long."""
        scope = request.turn.scope
        if scope is None:
            return False
        prompt = [*request.turn.prompt]
        shared = 0
        for running in self._running.values():
            other = running.seat.request
            is_slow = other.background and not request.background
            if running.turn.input.unread and not is_slow and other.turn.scope == scope:
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
            turn = TurnDecoder(
                self._sequences, match, request, draft_model=self._draft_model, clock=self._clock
            )
        except Exception as error:  # it is in no queue any more: nobody else would report this
            seat.result.set_exception(error)
            return
        self._running[number] = ActiveTurn(seat, turn, FairShare(self._clock, self._cpu_clock))
        if turn.finish is not None:
            self._retire(number)

    def _choose_chunks(self, *, drafts: bool = True) -> list[Chunk]:
        """The chunks of the next decode."""
        if self._deterministic:
            return self._choose_one()
        spare = self._sequences.engine.max_drafted if drafts else 0
        return self._choose_many(spare)

    def _choose_one(self) -> list[Chunk]:
        """The next chunk of one turn; each has its turn in a row (round robin)."""
        if not self._running:
            return []
        number, running = next(iter(self._find_due().items()))
        self._running[number] = self._running.pop(number)  # it goes to the end of the line
        unread = running.turn.input.unread
        # In a batch of another size, llama.cpp's kernels sum up in another order: the logits differ
        # in their last digits.
        if not unread:
            return [running.turn.next_chunk(1)]
        block = BLOCK - running.turn.input.position % BLOCK
        return [running.turn.next_chunk(min(unread, block))]

    def _choose_many(self, spare: int) -> list[Chunk]:
        """The next chunk of each turn; who has little to say goes first, and the room that is left
        is for the prompts. Up to `spare` tokens may be drafted on top."""
        has_live = any(not running.seat.request.background for running in self._running.values())
        due = self._find_due()
        order = sorted(due.items(), key=lambda item: item[1].turn.input.pending)
        chunks: list[Chunk] = []
        room = self._step
        for done, (number, running) in enumerate(order):
            rest = len(order) - done
            # A checkpoint can only be taken where a decode ends.
            share = min(max(1, room // rest), self._sequences.until_stop(number))
            draft = spare // rest
            if has_live and running.seat.request.background:
                share = min(share, BACKGROUND_STEP)
                draft = 0
            if running.share.is_costly:  # drafts would cost a mask each
                draft = 0
            with running.share.measure(is_elsewhere=self._draft_model is not None):
                chunk = running.turn.next_chunk(share, draft)
            room -= len(chunk.tokens)
            spare -= chunk.drafted
            chunks.append(chunk)
        return chunks

    def _find_due(self) -> dict[int, ActiveTurn]:
        """Those under way that do not sit out; all, if nobody else would have the time."""
        due = {n: running for n, running in self._running.items() if not running.share.sits_out}
        return due or self._running

    def _choose_fewer_chunks(self, chunks: Sequence[Chunk], error: ContextError) -> list[Chunk]:
        """The chunks to decode where the context that the sequences share is full: drafts go first,
        then the tokens of idle sequences, then the request that came last."""
        has_drafts = any(chunk.drafted for chunk in chunks)
        if not has_drafts and not self._sequences.forget_oldest(self._find_idle()):
            newest = list(self._running)[-1]
            self._fail(newest, error)
            self._sequences.release(newest)
        return self._choose_chunks(drafts=False)

    def _decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        asked = {chunk.sequence for chunk in chunks if chunk.wanted}
        with self._overlap.working(lambda: self._work_behind(asked)):
            since = self._clock()
            logits = self._sequences.decode(chunks)
            self._decode_seconds = self._clock() - since
        return logits

    def _work_behind(self, asked: Set[int]) -> None:
        """Does what the decode under way does not need: results and text of the tokens before it,
        which callers wait for, then the masks of the tokens behind it. Nothing here touches the
        engine.

        Args:
            asked: the sequences whose turns get logits from it.
        """
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
        except Exception as error:  # also of a sink, which is the caller's: the others go on
            self._errors[number] = error

    def _settle_changed(self) -> set[int]:
        """Ends or changes the turns whose text asks for it; returns their sequences. What the last
        decode has computed of them counts for nothing."""
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
        """Writes all text of a turn; false if it is over then.

        Args:
            number: of its sequence.
            forgets: the last decode counts for nothing there.
        """
        running = self._running[number]
        try:
            if forgets:
                running.turn.forget_decode()
            running.turn.settle()
        except Exception as error:  # likewise
            self._fail(number, error)
            return False
        if running.turn.finish is None:
            return True
        self._retire(number)
        return False

    def _advance(self, chunks: Sequence[Chunk], logits: np.ndarray, *, changed: Set[int]) -> None:
        """Hands each turn its logits, and retires those that are over.

        Args:
            chunks: those that were decoded.
            logits: that were asked for.
            changed: the sequences whose logits count for nothing.
        """
        under_way = len(self._running)
        kept = [chunk for chunk in chunks if chunk.sequence not in changed]
        wanted = 0
        for chunk in kept:
            if self._running[chunk.sequence].turn.takes_likeliest:
                wanted += chunk.wanted
        slot = 0
        with self._overlap.finding_likeliest(logits, wanted) as likeliest:
            for chunk in chunks:
                if chunk.sequence not in changed:
                    rows = DecodedRows(slot, logits[slot : slot + chunk.wanted], likeliest.find)
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
        except Exception as error:  # likewise
            self._fail(chunk.sequence, error)
        else:
            if running.turn.finish is not None:
                self._retire(chunk.sequence)

    def _retire(self, number: int) -> None:
        """A turn is over; its caller gets the result while the next decode runs, if one does."""
        self._over.append(self._running.pop(number))
        if not self._defers:
            self._hand_over()

    def _hand_over(self) -> None:
        """Gives their callers the results of the turns that are over."""
        while self._over:
            running = self._over.popleft()
            try:
                generation = running.turn.result()
            except Exception as error:  # likewise: the rest of the events goes to the sink here
                _end_in_error(running, error)
            else:
                running.turn.close()
                running.seat.result.set_result(generation)

    def _fail(self, number: int, error: Exception) -> None:
        """The request of a sequence has failed; the others go on."""
        _end_in_error(self._running.pop(number), error)


def _end_in_error(running: ActiveTurn, error: Exception) -> None:
    """Gives a caller the error of its turn, whatever else goes wrong: it waits for that."""
    try:
        running.turn.close()
        running.turn.note_failure()
    except Exception:  # of the caller's own function, which may write to a full disk
        LOG.exception("what was traced of a failed turn could not be handed over")
    finally:
        running.seat.result.set_exception(error)
