"""How much of what a sequence holds, or held when it was saved, a prompt can go on with."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from grammars.wire.format import count_common


class Past(Protocol):
    """Tokens that have been computed, and where they can be gone back to."""

    @property
    def tokens(self) -> list[int]: ...

    @property
    def in_blocks(self) -> int:
        """How many of the first tokens were computed in whole blocks."""
        ...

    @property
    def checkpoints(self) -> Collection[int]:
        """How many tokens there were at each."""
        ...


@dataclass
class Held:
    """What a sequence holds: a `Past`.

    Attributes:
        checkpoints: by the number of tokens that there were.
        pins: numbers of tokens that other prompts are likely to have in common with this one.
        stops: where checkpoints are to be taken.
        used: when it was used last, as a running number.
    """

    tokens: list[int] = field(default_factory=list[int])
    in_blocks: int = 0
    checkpoints: dict[int, bytes] = field(default_factory=dict[int, bytes])
    pins: tuple[int, ...] = ()
    stops: frozenset[int] = frozenset()
    used: int = 0

    def cut(self, length: int) -> None:
        """Forgets all but the first `length` tokens."""
        del self.tokens[length:]
        self.in_blocks = min(self.in_blocks, length)
        self.checkpoints = {at: data for at, data in self.checkpoints.items() if at <= length}

    def copy(self) -> "Held":
        """The same tokens, for another sequence; nothing is pinned there."""
        return Held([*self.tokens], self.in_blocks, {**self.checkpoints}, used=self.used)


def measure(
    past: Past, tokens: list[int], most: int, block: int, can_cut: Callable[[int], bool]
) -> int:
    """How many of the first tokens a past can be cut to.

    Args:
        past: what was computed.
        tokens: those that are wanted.
        most: so many at most.
        block: whole blocks of so many tokens only.
        can_cut: tells whether the past can be cut to so many; if not, its checkpoints remain.
    """
    length = min(count_common(past.tokens, tokens), most)
    if block > 1:
        length = min(length, past.in_blocks) // block * block
    if length == len(past.tokens) or can_cut(length):
        return length
    return max((at for at in past.checkpoints if at <= length and at % block == 0), default=0)
