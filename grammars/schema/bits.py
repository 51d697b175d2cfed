"""Conditions on the bits of a number, for llguidance's parametric rules.

`str(condition)` is its text in llguidance's Lark dialect (`%if`); `holds` evaluates it. The
functions below simplify conditions, so that no grammar contains one that is always or never true.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Count:
    """Of the bits from `start` to before `stop`, `low` to `high` are set."""

    start: int
    stop: int
    low: int
    high: int

    def holds(self, bits: int) -> bool:
        mask = (1 << self.stop - self.start) - 1
        inside = bits >> self.start & mask
        return self.low <= inside.bit_count() <= self.high

    def __str__(self) -> str:
        size = self.stop - self.start
        span = f"[{self.start}:{self.stop}]"
        if size == 1:
            return f"bit_{'set' if self.low else 'clear'}({self.start})"
        if self.high == 0:
            return f"is_zeros({span})"
        if self.low == size:
            return f"is_ones({span})"
        if self.low == self.high:
            return f"bit_count_eq({span}, {self.low})"
        least = f"bit_count_ge({span}, {self.low})"
        most = f"bit_count_le({span}, {self.high})"
        if self.high >= size:
            return least
        if self.low == 0:
            return most
        return f"and({least}, {most})"


@dataclass(frozen=True)
class Negation:
    """The condition is false."""

    part: "Condition"

    def holds(self, bits: int) -> bool:
        return not self.part.holds(bits)

    def __str__(self) -> str:
        return f"not({self.part})"


@dataclass(frozen=True)
class Conjunction:
    """Both conditions are true."""

    a: "Condition"
    b: "Condition"

    def holds(self, bits: int) -> bool:
        return self.a.holds(bits) and self.b.holds(bits)

    def __str__(self) -> str:
        return f"and({self.a}, {self.b})"


@dataclass(frozen=True)
class Fact:
    """A condition that is always true, or never. llguidance has no syntax for it."""

    value: bool

    def holds(self, bits: int) -> bool:
        return self.value


ALWAYS, NEVER = Fact(True), Fact(False)
Condition: TypeAlias = Count | Negation | Conjunction | Fact


@dataclass(frozen=True, slots=True)
class Keep:
    """The parameter of the referring rule, unchanged."""


@dataclass(frozen=True, slots=True)
class SetBit:
    """The parameter of the referring rule, with this bit set."""

    bit: int


KEEP = Keep()


def count(start: int, stop: int, low: int, high: int | None = None) -> Condition:
    """From `low` to `high` (None: all) of the bits from `start` to before `stop` are set."""
    size = stop - start
    high = size if high is None else min(high, size)
    if low > high:
        return NEVER
    if low <= 0 and high == size:
        return ALWAYS
    return Count(start, stop, low=max(0, low), high=high)


def negate(part: Condition) -> Condition:
    match part:
        case Fact(value):
            return Fact(not value)
        case Negation(inner):
            return inner
        case _:
            return Negation(part)


def conjoin(parts: Iterable[Condition]) -> Condition:
    kept = [part for part in dict.fromkeys(parts) if part != ALWAYS]
    if NEVER in kept or not set(kept).isdisjoint(map(negate, kept)):
        return NEVER
    if not kept:
        return ALWAYS
    found = kept.pop()
    for part in reversed(kept):
        found = Conjunction(part, found)
    return found


def disjoin(parts: Iterable[Condition]) -> Condition:
    return negate(conjoin(map(negate, parts)))
