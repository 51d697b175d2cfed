"""Which request is on which sequence, step by step: continuous batching."""

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import numpy as np

from constrained.deadline import Clock
from constrained.decode.request import Finish, Generation, Request, Usage
from constrained.decode.turn_decoder import Progression
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError
from constrained.kv.sequences import SPARED, Sequences
from constrained.kv.snapshots import NO_CACHE, Cache
from constrained.metrics import Metrics
from constrained.schedule.mask_prefetch import Beside
from grammars.wire.format import count_common

BLOCK = 64  # tokens of a prompt that are decoded together where that has to be always the same
STEP = 512  # tokens of one decode: so long does a prompt keep the others waiting


def _make_future() -> Future[Generation]:
    future = Future[Generation]()
    future.set_running_or_notify_cancel()  # the way to end a request is its `is_wanted`
    return future


@dataclass(frozen=True)
class Seat:
    """A request, and the generation that is to come of it."""

    request: Request
    result: Future[Generation] = field(default_factory=_make_future)


class Schedule:
    """The requests of one engine. Not for two threads at once.

    Requests are admitted in their order, as soon as a sequence is free. Each step decodes what
    those under way have to say next, and beside that a part of the prompts that are not read yet,
    in equal shares. What a prompt has in common with what a sequence holds is not computed again.

    Args:
        engine: runs the model.
        step: tokens of one decode, at most.
        deterministic: what is computed for a request does not depend on others, or on what was
            there before: one turn a step, its prompt in blocks, then token by token. It is slower.
        clock: what the deadlines of the requests are on, and turns are timed with.
        cache: how much is kept of what sequences have held, when others take their place.

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
        cache: Cache = NO_CACHE,
    ):
        self._sequences = Sequences(engine, BLOCK if deterministic else 1, cache)
        self._beside = Beside(engine.offloads)
        self._step = step
        self._deterministic = deterministic
        self._clock = clock
        self._waiting: deque[Seat] = deque()
        self._seats: dict[int, Seat] = {}
        self._turns: dict[int, Progression] = {}

    @property
    def is_idle(self) -> bool:
        """Is there nothing to do?"""
        return not (self._waiting or self._turns)

    @property
    def waiting(self) -> int:
        """How many requests are not admitted yet."""
        return len(self._waiting)

    @property
    def metrics(self) -> Metrics:
        """What is held of earlier requests; also for other threads."""
        held = self._sequences.metrics
        return replace(held, running=len(self._turns), waiting=len(self._waiting))

    def add(self, seat: Seat) -> None:
        """Queues a request."""
        self._waiting.append(seat)

    def step(self) -> None:
        """Drops what nobody wants or has no time left, admits what there is room for, decodes,
        takes the tokens."""
        self._drop_unwanted()
        self._drop_late()
        self._admit()
        chunks = self._choose_chunks()
        while chunks:
            try:
                with self._beside.preparing(self._turns[c.sequence] for c in chunks if c.wanted):
                    logits = self._sequences.decode(chunks)
            except ContextError as error:
                drafted = any(chunk.wanted > 1 for chunk in chunks)
                if not drafted:
                    self._make_room(error)
                chunks = self._choose_chunks(drafts=False)
                continue
            except Exception as error:  # what the sequences of all of them held is lost
                for chunk in chunks:
                    self._leave(chunk.sequence, error)
                return
            self._advance(chunks, logits)
            return

    def clear(self, error: Exception) -> None:
        """Forgets what the sequences hold; requests that are not done fail with the error."""
        for number in list(self._turns):
            self._leave(number, error)
        while self._waiting:
            self._waiting.popleft().result.set_exception(error)
        self._sequences.clear()
        self._beside.close()

    def save(self) -> None:
        """Writes to files what the sequences hold, if there are any; nothing may be under way."""
        self._sequences.save()

    def _drop_unwanted(self) -> None:
        for seat in [seat for seat in self._waiting if not seat.request.is_wanted()]:
            self._waiting.remove(seat)
            usage = Usage(len(seat.request.prompt), 0, 0)
            seat.result.set_result(Generation((), "", (), Finish.CANCELLED, usage))
        for number, turn in list(self._turns.items()):
            if not self._seats[number].request.is_wanted():
                turn.cancel()
                self._retire(number)

    def _drop_late(self) -> None:
        now = self._clock()
        for seat in list(self._waiting):
            if (deadline := seat.request.deadline) and deadline.is_over(now):
                self._waiting.remove(seat)
                seat.result.set_exception(deadline.fail_waiting())
        for number, turn in list(self._turns.items()):
            if (deadline := self._seats[number].request.deadline) and deadline.is_over(now):
                size = len(turn.prompt)
                error = deadline.fail_begun(size - turn.unread, size, turn.generated)
                self._leave(number, error)

    def _admit(self) -> None:
        for seat in list(self._waiting):
            idle = self._idle()
            if not idle:
                return
            if not self._is_being_read(seat.request.prompt):
                self._waiting.remove(seat)
                self._begin(seat, idle)

    def _idle(self) -> list[int]:
        return [n for n in range(self._sequences.max_sequences) if n not in self._turns]

    def _is_being_read(self, prompt: Sequence[int]) -> bool:
        """Is much of the prompt about to be computed for somebody else? Then it is worth waiting
        for: it can be copied."""
        reading = [turn for turn in self._turns.values() if turn.unread]
        shared = max((count_common(turn.prompt, [*prompt]) for turn in reading), default=0)
        return shared > SPARED and shared > self._sequences.find(prompt) + SPARED

    def _begin(self, seat: Seat, idle: list[int]) -> None:
        prompt = seat.request.prompt
        try:  # it waits nowhere any more: who asks has to be told of whatever goes wrong
            match = self._sequences.claim(prompt, idle)
            number = match.sequence
            breakpoints = seat.request.turn.breakpoints
            self._sequences.pin(number, len(prompt), breakpoints.places, breakpoints.closed)
            turn = Progression(self._sequences, number, seat.request, match.length, self._clock)
        except Exception as error:
            seat.result.set_exception(error)
            return
        self._seats[number], self._turns[number] = seat, turn
        if turn.finish is not None:
            self._retire(number)

    def _choose_chunks(self, *, drafts: bool = True) -> list[Chunk]:
        spare = self._sequences.max_drafted if drafts else 0
        return self._choose_one() if self._deterministic else self._choose_many(spare)

    def _choose_one(self) -> list[Chunk]:
        """What one turn has to say next, one after the other."""
        if not self._turns:
            return []
        number, turn = next(iter(self._turns.items()))
        self._turns[number] = self._turns.pop(number)
        rest = turn.unread
        return [turn.next_chunk(min(rest, BLOCK - turn.position % BLOCK) if rest else 1)]

    def _choose_many(self, spare: int) -> list[Chunk]:
        """What each turn has to say next; who has little to say goes first, and what room that
        leaves is for the prompts. Beside that, so many tokens may be drafted."""
        turns = sorted(self._turns.items(), key=lambda it: it[1].pending)
        chunks, room = list[Chunk](), self._step
        for place, (number, turn) in enumerate(turns):
            rest = len(turns) - place
            share = min(max(1, room // rest), self._sequences.until_stop(number))
            chunk = turn.next_chunk(share, spare // rest)
            room -= len(chunk.tokens)
            spare -= max(0, chunk.wanted - 1)
            chunks.append(chunk)
        return chunks

    def _make_room(self, error: ContextError) -> None:
        """The context that the sequences share is full: what nobody uses goes first, then the
        request that came last."""
        if not self._sequences.forget_oldest(self._idle()):
            newest = list(self._turns)[-1]
            self._leave(newest, error)
            self._sequences.release(newest)

    def _advance(self, chunks: Sequence[Chunk], logits: Sequence[np.ndarray]) -> None:
        for chunk in chunks:
            self._turns[chunk.sequence].note(chunk)
        first = 0
        for chunk in (chunk for chunk in chunks if chunk.wanted):
            number, slot, first = chunk.sequence, first, first + chunk.wanted
            turn = self._turns[number]
            try:
                turn.advance(slot, logits[slot:first])
            except Exception as error:
                self._leave(number, error)
                continue
            if turn.finish is not None:
                self._retire(number)

    def _retire(self, number: int) -> None:
        turn = self._turns[number]
        try:
            generation = turn.result()
        except Exception as error:
            self._leave(number, error)
            return
        del self._turns[number]
        turn.close()
        self._seats.pop(number).result.set_result(generation)

    def _leave(self, number: int, error: Exception) -> None:
        """The request of a sequence has failed; the others go on."""
        self._turns.pop(number).close()
        self._seats.pop(number).result.set_exception(error)
