"""Finds repetition at the end of a text that grows token by token."""

from collections import deque
from dataclasses import dataclass

LONGEST_PERIOD = 64  # tokens
FEWEST_PERIODS = 3
FEWEST_TOKENS = 16  # of a loop, however few are left


@dataclass(frozen=True)
class Loop:
    """The repetition at the end of a text."""

    period: int
    length: int


class LoopFinder:
    """Finds the repetition at the end of a growing text, for all periods up to the longest.

    The cost of a token is the number of equal tokens within the longest period.
    """

    def __init__(self, longest: int = LONGEST_PERIOD):
        self._longest = longest
        self._size = 0  # of the text, in tokens
        self._places: dict[int, deque[int]] = {}  # of each token, the last ones
        # By period, the longest first: how many of the last tokens equal those one period earlier.
        self._repeated: dict[int, int] = {}

    def add(self, token: int) -> None:
        """Adds a token to the text."""
        places = self._places.setdefault(token, deque())
        while places and self._size - places[0] > self._longest:
            places.popleft()
        repeated: dict[int, int] = {}
        for place in places:
            period = self._size - place
            repeated[period] = self._repeated.get(period, 0) + 1
        self._repeated = repeated
        places.append(self._size)
        self._size += 1

    def find(self, fewest: int) -> Loop | None:
        """The loop with the shortest period; None: there is none."""
        for period, repeated in reversed(self._repeated.items()):
            length = period + repeated
            if length >= fewest and length >= FEWEST_PERIODS * period:
                return Loop(period, length)
        return None

    def measure(self, loop: Loop) -> int:
        """The current length of the loop, in tokens; 0: the text has left it."""
        length = self._repeated.get(loop.period, 0) + loop.period
        return length if length >= loop.length else 0
