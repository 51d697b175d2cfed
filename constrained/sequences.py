"""What the sequences of an engine hold, so that nothing is computed twice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from constrained.engine.protocol import Chunk, Engine, Sampler, Sampling
from constrained.errors import ContextError
from constrained.vocabulary import Vocabulary

SPARED = 64  # tokens: what is worth a sequence of its own, and worth waiting for


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
    """

    def __init__(self, engine: Engine, block: int = 1):
        self._engine = engine
        self._block = block
        self._in_blocks = [0] * engine.max_sequences  # how many first tokens came in whole blocks
        self._held: list[list[int]] = [[] for _ in range(engine.max_sequences)]
        self._clock = count(1)
        self._used = [0] * engine.max_sequences

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
            number, size = chunk.sequence, len(chunk.tokens)
            self._held[number] += chunk.tokens
            if chunk.position == self._in_blocks[number] and size == self._block:
                self._in_blocks[number] += size
            self._used[number] = next(self._clock)
        return logits

    def rollback(self, sequence: int, length: int) -> bool:
        """As the engine's."""
        if not self._engine.rollback(sequence, length):
            return False
        del self._held[sequence][length:]
        self._in_blocks[sequence] = min(self._in_blocks[sequence], length)
        return True

    def can_cut(self, sequence: int, length: int) -> bool:
        """As the engine's."""
        return self._engine.can_cut(sequence, length)

    def release(self, sequence: int) -> None:
        """Forgets all tokens of a sequence."""
        self._held[sequence].clear()
        self._in_blocks[sequence] = 0
        self._engine.release(sequence)

    def tokens(self, sequence: int) -> Sequence[int]:
        """What a sequence holds."""
        return self._held[sequence]

    def find(self, tokens: Sequence[int]) -> int:
        """How many of the first tokens are known somewhere, and can be gone on with."""
        return max(self._compare(tokens))

    def claim(self, tokens: Sequence[int], idle: Iterable[int]) -> Match:
        """Makes an idle sequence hold as many of the first tokens as are known, and no others.

        Either the one that has them goes on with them, or they are copied to the one that was not
        used for the longest time: what is lost should be worth as little as possible.
        """
        idle, lengths, held = list(idle), self._compare(tokens), self._held
        oldest = min(idle, key=lambda number: (bool(held[number]), self._used[number]))
        best = max(range(len(held)), key=lambda n: (lengths[n], n in idle, -len(held[n])))
        length = lengths[best]
        if best in idle and (len(held[best]) - length <= SPARED or best == oldest):
            self._cut(best, length)
            return Match(best, length)
        self.release(oldest)
        if length:
            self._engine.copy(best, oldest, length)
            held[oldest] = held[best][:length]
            self._in_blocks[oldest] = min(self._in_blocks[best], length)
        return Match(oldest, length)

    def forget_oldest(self, idle: Iterable[int]) -> bool:
        """Empties the idle sequence that was not used for the longest time; False if all are."""
        full = [number for number in idle if self._held[number]]
        if full:
            self.release(min(full, key=self._used.__getitem__))
        return bool(full)

    def clear(self) -> None:
        """Forgets everything."""
        for number in range(len(self._held)):
            self.release(number)

    def _compare(self, tokens: Sequence[int]) -> list[int]:
        """For each sequence, how many of the first tokens it can be cut to.

        Their last one does not count, for its logits are wanted; and of a sequence that the engine
        cannot cut, all or nothing is of use.
        """
        tokens = list(tokens)
        room = max(0, len(tokens) - 1)
        lengths = [0] * len(self._held)
        for number, held in enumerate(self._held):
            length = min(common_length(held, tokens), room)
            if self._block > 1:
                length = min(length, self._in_blocks[number]) // self._block * self._block
            if length == len(held) or self._engine.can_cut(number, length):
                lengths[number] = length
        return lengths

    def _cut(self, number: int, length: int) -> None:
        if length == 0:
            self.release(number)
        elif length < len(self._held[number]):
            self.rollback(number, length)


def common_length(one: list[int], other: list[int]) -> int:
    """How many tokens two lists begin with in common; slices are compared at the speed of C."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
