"""What the sequences of an engine hold, so that nothing is computed twice."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from constrained.engine.protocol import Chunk, Engine, Sampler, Sampling
from constrained.errors import ContextError, ModelError
from constrained.kv.saving import SPARED, Saving
from constrained.kv.sequence_state import Held, measure
from constrained.kv.snapshots import NO_CACHE, Cache
from constrained.metrics import Amount, Metrics
from constrained.vocabulary.vocabulary import Vocabulary

__all__ = ["SPARED", "Match", "Sequences"]

ENDLESS = 1 << 62  # tokens
LATEST = 4  # checkpoints of a sequence, beside the pinned ones


@dataclass(frozen=True)
class Match:
    """A sequence holds the first `length` tokens of a prompt, and nothing else."""

    sequence: int
    length: int


class Sequences:
    """An engine that remembers the tokens of its sequences. Not for two threads at once.

    Args:
        engine: that nobody else uses.
        block: go on with whole blocks of so many tokens only, each computed by itself: what is
            computed then does not depend on what was there. 1: with any number, however computed.
        cache: how much is kept of what sequences have held, when others take their place.

    Raises:
        RequestError: the folder of the cache cannot be used.
    """

    def __init__(self, engine: Engine, block: int = 1, cache: Cache = NO_CACHE):
        self._engine = engine
        self._block = block
        self._held = [Held() for _ in range(engine.max_sequences)]
        self._clock = count(1)
        self._saving = Saving(engine, block, cache)

    @property
    def vocabulary(self) -> Vocabulary:
        return self._engine.vocabulary

    @property
    def context_length(self) -> int:
        """How many tokens one sequence can have."""
        return self._engine.context_length

    @property
    def max_sequences(self) -> int:
        return len(self._held)

    @property
    def metrics(self) -> Metrics:
        """What is held and what has come of it, also for other threads."""
        full = [held for held in self._held if held.tokens]
        tokens = sum(len(held.tokens) for held in full)
        sizes = [len(data) for held in full for data in [*held.checkpoints.values()]]
        return self._saving.metrics(len(self._held), Amount(len(full), tokens, sum(sizes)))

    @property
    def max_drafted(self) -> int:
        """As the engine's."""
        return self._engine.max_drafted

    def sampler(self, sampling: Sampling) -> Sampler:
        """As the engine's."""
        return self._engine.sampler(sampling)

    def decode(self, chunks: Sequence[Chunk]) -> list[np.ndarray]:
        """As the engine's."""
        try:
            logits = self._engine.decode(chunks)
        except ContextError:
            raise
        except BaseException:
            for chunk in chunks:
                self.release(chunk.sequence)
            raise
        for chunk in chunks:
            held, size = self._held[chunk.sequence], len(chunk.tokens)
            held.tokens += chunk.tokens
            if chunk.position == held.in_blocks and size == self._block:
                held.in_blocks += size
            held.used = next(self._clock)
            if len(held.tokens) in held.stops:
                self._take_checkpoint(chunk.sequence)
        return logits

    def rollback(self, sequence: int, length: int) -> bool:
        """As the engine's."""
        if not self._engine.rollback(sequence, length):
            return False
        self._held[sequence].cut(length)
        return True

    def go_back(self, sequence: int, length: int) -> int | None:
        """Forgets all tokens of a sequence but the first `length`, or fewer: up to a checkpoint.

        Returns:
            How many are left; None if the model cannot go back, then nothing has changed.

        Raises:
            ModelError: the model failed, and the sequence is released.
        """
        held = self._held[sequence]
        if length == len(held.tokens) or self.rollback(sequence, length):
            return length
        place = max((at for at in held.checkpoints if at <= length), default=None)
        if place is None:
            return None
        try:
            self._engine.go_back(sequence, place, held.checkpoints[place])
        except ModelError:
            self.release(sequence)
            raise
        held.cut(place)
        return place

    def can_cut(self, sequence: int, length: int) -> bool:
        """As the engine's."""
        return self._engine.can_cut(sequence, length)

    def release(self, sequence: int) -> None:
        """Forgets all tokens of a sequence."""
        self._held[sequence] = Held(used=self._held[sequence].used)
        self._engine.release(sequence)

    def tokens(self, sequence: int) -> Sequence[int]:
        """What a sequence holds."""
        return self._held[sequence].tokens

    def pin(self, sequence: int, length: int, boundaries: Iterable[int], closed: int = 0) -> None:
        """Says where in a prompt others are likely to differ from it, and this one may go on anew.

        Args:
            sequence: will read the prompt.
            length: of the prompt.
            boundaries: numbers of its first tokens; what is kept of these stays longest.
            closed: as in `Request`.
        """
        held, block = self._held[sequence], self._block
        inside = (at for at in boundaries if 0 < at <= length)
        held.pins = tuple(sorted({at - at % block for at in inside} - {0}))
        if self._engine.needs_checkpoints:
            last = min(closed or length, length - 1)  # one is computed anew, for its logits
            held.stops = frozenset((*held.pins, last - last % block))

    def until_stop(self, sequence: int) -> int:
        """How many tokens may be appended at once, so that a checkpoint can be taken then."""
        held = self._held[sequence]
        size = len(held.tokens)
        return min((at - size for at in held.stops if at > size), default=ENDLESS)

    def find(self, tokens: Sequence[int]) -> int:
        """How many of the first tokens are known somewhere, and can be gone on with."""
        tokens = list(tokens)
        known = max(self._compare(tokens))
        return max(known, self._saving.find(tokens, known)[0])

    def claim(self, tokens: Sequence[int], idle: Iterable[int]) -> Match:
        """Makes an idle sequence hold as many of the first tokens as are known, and no others.

        Either the one that has them goes on with them, or they are copied or restored to the one
        that was not used for the longest time: what is lost should be worth as little as possible.
        """
        tokens, idle, held = list(tokens), list(idle), self._held
        if (restored := self._restore(tokens, idle)) is not None:
            return Match(restored, len(held[restored].tokens))
        lengths, oldest = self._compare(tokens), self._oldest(idle)
        best = max(range(len(held)), key=lambda n: (lengths[n], n in idle, -len(held[n].tokens)))
        length = lengths[best]
        if best in idle and (len(held[best].tokens) - length <= SPARED or best == oldest):
            self._cut(best, length)
            return Match(best, len(held[best].tokens))
        self._empty(oldest)
        if length:
            self._copy(best, oldest, length)
        return Match(oldest, len(held[oldest].tokens))

    def forget_oldest(self, idle: Iterable[int]) -> bool:
        """Empties the idle sequence that was not used for the longest time; False if all are."""
        full = [number for number in idle if self._held[number].tokens]
        if full:
            self._empty(self._oldest(full))
        return bool(full)

    def save(self) -> None:
        """Empties all sequences, and writes what is worth it to files, if there are any."""
        for number in range(len(self._held)):
            self._empty(number)
        self._saving.flush()

    def clear(self) -> None:
        """Forgets everything that the sequences hold."""
        for number in range(len(self._held)):
            self.release(number)

    def _oldest(self, idle: Collection[int]) -> int:
        held = self._held
        return min(idle, key=lambda number: (bool(held[number].tokens), held[number].used))

    def _compare(self, tokens: list[int]) -> list[int]:
        """For each sequence, how many of the first tokens it can be cut to.

        Their last one does not count, for its logits are wanted; and a sequence that the engine
        cannot cut can go back to its checkpoints alone.
        """
        most = max(0, len(tokens) - 1)
        return [self._measure(number, tokens, most) for number in range(len(self._held))]

    def _measure(self, number: int, tokens: list[int], most: int) -> int:
        def can_cut(length: int) -> bool:
            return self._engine.can_cut(number, length)

        return measure(self._held[number], tokens, most, self._block, can_cut)

    def _restore(self, tokens: list[int], idle: Collection[int]) -> int | None:
        """Restores a snapshot that gains much over what is held; returns where to, or None."""
        while snapshot := self._saving.look_up(tokens, max(self._compare(tokens))):
            number = self._oldest(idle)
            self._empty(number)
            try:
                self._held[number] = self._saving.restore(snapshot, number)
            except ModelError:  # it is forgotten, and noted
                continue
            self._held[number].used = next(self._clock)
            self._shorten(number, self._measure(number, tokens, max(0, len(tokens) - 1)))
            return number
        return None

    def _copy(self, source: int, target: int, length: int) -> None:
        """Makes an empty sequence hold what another one can be cut to."""
        held = self._held[source]
        whole = not self._engine.can_cut(source, length)
        self._engine.copy(source, target, len(held.tokens) if whole else length)
        self._held[target] = held.copy()
        if whole:
            self._shorten(target, length)
        else:
            self._held[target].cut(length)

    def _empty(self, number: int) -> None:
        self._save(number, 0)
        self.release(number)

    def _cut(self, number: int, length: int) -> None:
        if length < len(self._held[number].tokens):
            self._save(number, length)
            self._shorten(number, length)

    def _shorten(self, number: int, length: int) -> None:
        """Cuts a sequence to so many tokens; to none if that fails."""
        if length == 0:
            self.release(number)
        elif length < len(self._held[number].tokens):
            try:
                kept = self.go_back(number, length)
            except ModelError as error:
                kept = None
                self._saving.note(error)
            if kept is None:
                self.release(number)

    def _save(self, number: int, stays: int) -> None:
        """Keeps what a sequence is about to lose, and by itself what others are likely to share."""
        if self._saving.is_off:
            return
        held = self._held[number]
        others = [n for n in range(len(self._held)) if n != number]

        def held_elsewhere(tokens: list[int]) -> int:
            return max((self._measure(n, tokens, len(tokens)) for n in others), default=stays)

        self._saving.save(number, held, max(stays, held_elsewhere(held.tokens)))
        for pin in reversed(held.pins):
            head = held.tokens[:pin]
            if len(head) < pin or pin <= stays or self._measure(number, head, pin) < pin:
                continue
            known = held_elsewhere(head)
            if self._saving.is_worth_pinning(head, known):
                self._shorten(number, pin)
                self._saving.save(number, self._held[number], known, is_pinned=True)

    def _take_checkpoint(self, number: int) -> None:
        """Takes one where the sequence is now; all but the latest and the pinned ones go."""
        held = self._held[number]
        try:
            held.checkpoints[len(held.tokens)] = self._engine.checkpoint(number)
        except (ModelError, MemoryError) as error:
            self._saving.note(error)
        loose = sorted(at for at in held.checkpoints if at not in held.pins)
        for place in loose[:-LATEST]:
            del held.checkpoints[place]
