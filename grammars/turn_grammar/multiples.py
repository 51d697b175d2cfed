"""Lexemes that llguidance enforces with its own JSON Schema reader, and the texts that they
allow."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from grammars.schema.nodes import LARGEST_MULTIPLE, Number
from grammars.schema.numbers import count_multiples
from grammars.turn_grammar.ir.nodes import Language

_MAX_MORE = 17  # digits after those that are written

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)?")


@dataclass(frozen=True)
class Multiples(Language):
    """The multiples of an integer from one to another, as llguidance writes them."""

    divisor: int
    first: int
    last: int

    @classmethod
    def of(cls, node: Number) -> "Multiples":
        divisor = int(node.bounds["multipleOf"])
        first, last = count_multiples(node)
        limit = LARGEST_MULTIPLE // divisor
        least = -limit if first == -inf else int(first)
        greatest = limit if last == inf else int(last)
        return cls(divisor, least * divisor, greatest * divisor)

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
