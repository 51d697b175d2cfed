"""Lexemes that llguidance enforces with its own JSON Schema reader, and the texts that they
allow."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from grammars.regex.characters import Characters
from grammars.regex.deterministic import (
    DeterministicState,
    Edge,
    TooManyStatesError,
    determinize,
    intersect_automata,
    minimize,
)
from grammars.regex.ranges import express_range
from grammars.regex.reader import read
from grammars.schema.nodes import LARGEST_MULTIPLE, Number
from grammars.schema.numbers import count_multiples
from grammars.turn_grammar.ir.nodes import Language

_MAX_MORE = 17  # digits after those that are written

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)?")
_SIGN, _ZERO, _FIRST = 1, 2, 3
"""The states after the start; those of the remainders come last."""


@dataclass(frozen=True)
class Multiples(Language):
    """The multiples of an integer from one to another, as llguidance writes them.

    Args:
        divisor: the integer.
        first, last: the least and the greatest multiple.
    """

    divisor: int
    first: int
    last: int

    @classmethod
    def of(cls, node: Number) -> "Multiples":
        """Returns the integers of a node with `multipleOf`."""
        divisor = int(node.bounds["multipleOf"])
        first, last = count_multiples(node)
        limit = LARGEST_MULTIPLE // divisor
        least = -limit if first == -inf else int(first)
        greatest = limit if last == inf else int(last)
        return cls(divisor, least * divisor, greatest * divisor)

    def automaton(self, max_states: int) -> list[DeterministicState]:
        within = express_range({"minimum": self.first, "maximum": self.last}, integer=True)
        if within is None:
            return []
        numbers = determinize(read(within), max_states)
        multiples = divide(self.divisor, max_states)
        return minimize(intersect_automata(multiples, numbers, max_states))

    def begins(self, text: str) -> bool:
        return _INTEGER.fullmatch(text) is not None

    def accepts(self, text: str) -> bool:
        if not text.lstrip("-"):
            return False
        return int(text) % self.divisor == 0 and self.first <= int(text) <= self.last

    def extend(self, text: str) -> str | None:
        found = min(self._list_endings(text), key=len, default=None)
        if found is None and not text:
            found = min(("-" + rest for rest in self._list_endings("-")), key=len, default=None)
        return found

    def _list_endings(self, text: str) -> Iterator[str]:
        """Endings of this text: for each number of further digits, that of the multiple which is
        closest to zero."""
        digits = text.removeprefix("-")
        low, high = self.first, self.last
        if digits != text:
            low, high = -high, -low
        for more in range(1 if digits == "0" else _MAX_MORE):
            least = int(digits or "0") * 10**more
            greatest = least + 10**more - 1
            if not digits:  # the first digit is zero only if it is the only one
                least = 10 ** (more - 1) if more > 1 else 0
            found = -(-max(low, least) // self.divisor) * self.divisor
            if found <= min(high, greatest) and (digits or more):
                yield str(found)[len(digits) :]


def divide(divisor: int, max_states: int) -> list[DeterministicState]:
    """Builds an automaton for the multiples of an integer: any sign, no superfluous leading zero.
    Its states are the remainders.

    Raises:
        TooManyStatesError: it would have more than `max_states` states.
    """
    if divisor > max_states:
        raise TooManyStatesError(f"more than {max_states:,} states")

    def write_digits(remainder: int, least: int = 0) -> list[Edge]:
        edges: list[Edge] = []
        for digit in range(least, 10):
            after = (remainder * 10 + digit) % divisor
            edges.append(Edge(Characters.of(str(digit)), _FIRST + after))
        return edges

    begin = [Edge(Characters.of("0"), _ZERO), *write_digits(0, least=1)]
    states = [
        DeterministicState(False, (Edge(Characters.of("-"), _SIGN), *begin)),
        DeterministicState(False, tuple(begin)),
        DeterministicState(True, ()),
    ]
    for remainder in range(divisor):
        states.append(DeterministicState(remainder == 0, tuple(write_digits(remainder))))
    return minimize(states)
