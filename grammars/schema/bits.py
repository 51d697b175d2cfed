"""Conditions on the bits of a number, as llguidance's parametric rules state them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Count:
    """From `low` to `high` of the bits from `start` to before `stop` are set."""

    start: int
    stop: int
    low: int
    high: int

    def holds(self, bits: int) -> bool:
        """Is it so?"""
        inside = bits >> self.start & (1 << self.stop - self.start) - 1
        return self.low <= inside.bit_count() <= self.high

    def __str__(self) -> str:
        size, place = self.stop - self.start, f"[{self.start}:{self.stop}]"
        if size == 1:
            return f"bit_{'set' if self.low else 'clear'}({self.start})"
        if self.high == 0:
            return f"is_zeros({place})"
        if self.low == size:
            return f"is_ones({place})"
        if self.low == self.high:
            return f"bit_count_eq({place}, {self.low})"
        parts = [f"bit_count_ge({place}, {self.low})"] if self.low else []
        parts += [f"bit_count_le({place}, {self.high})"] if self.high < size else []
        return parts[0] if len(parts) == 1 else f"and({', '.join(parts)})"


@dataclass(frozen=True)
class Negation:
    """The opposite."""

    part: "Condition"

    def holds(self, bits: int) -> bool:
        """Is it so?"""
        return not self.part.holds(bits)

    def __str__(self) -> str:
        return f"not({self.part})"


@dataclass(frozen=True)
class Both:
    """Two conditions at once."""

    a: "Condition"
    b: "Condition"

    def holds(self, bits: int) -> bool:
        """Is it so?"""
        return self.a.holds(bits) and self.b.holds(bits)

    def __str__(self) -> str:
        return f"and({self.a}, {self.b})"


@dataclass(frozen=True)
class Fact:
    """What is always so, or never."""

    value: bool

    def holds(self, bits: int) -> bool:
        """Is it so?"""
        return self.value


ALWAYS, NEVER = Fact(True), Fact(False)
Condition: TypeAlias = Count | Negation | Both | Fact


@dataclass(frozen=True, slots=True)
class Keep:
    """The parameter of the referring rule, as it is."""


@dataclass(frozen=True, slots=True)
class SetBit:
    """The parameter of the referring rule with one more bit."""

    bit: int


KEEP = Keep()


def count(start: int, stop: int, low: int, high: int | None = None) -> Condition:
    """From `low` to `high` (None: all) of the bits from `start` to before `stop` are set."""
    size = stop - start
    high = size if high is None else min(high, size)
    if low > high:
        return NEVER
    return ALWAYS if low <= 0 and high == size else Count(start, stop, max(0, low), high)


def negate(part: Condition) -> Condition:
    """The opposite."""
    match part:
        case Fact(value):
            return Fact(not value)
        case Negation(inner):
            return inner
        case _:
            return Negation(part)


def both(parts: Iterable[Condition]) -> Condition:
    """All of them."""
    kept = [part for part in dict.fromkeys(parts) if part != ALWAYS]
    if NEVER in kept or any(negate(part) in kept for part in kept):
        return NEVER
    found = kept.pop() if kept else ALWAYS
    for part in reversed(kept):
        found = Both(part, found)
    return found


def either(parts: Iterable[Condition]) -> Condition:
    """At least one of them."""
    return negate(both(negate(part) for part in parts))
