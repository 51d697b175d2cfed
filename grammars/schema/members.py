"""The members of an object that may come next: in schema order, or in any order.

A state of `Unordered` is a number whose bits say which members are written. It is the parameter of
the grammar's rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from itertools import combinations
from typing import TypeAlias

from grammars.schema.bits import (
    ALWAYS,
    KEEP,
    NEVER,
    Condition,
    Keep,
    SetBit,
    conjoin,
    count,
    disjoin,
    negate,
)
from grammars.schema.nodes import Property
from grammars.schema.presence import FREE, Presence, find_keys, translate

MAX_BITS = 64  # of a parameter of llguidance's rules
MAX_KEYS = 60
"""If an object declares more properties, the presence of keys is not enforced: `MAX_BITS`, minus
some bits to count undeclared members."""


class KeyOrder(StrEnum):
    """The order of declared keys in objects."""

    ANY = "any"
    SCHEMA = "schema"


@dataclass(frozen=True)
class Ordered:
    """Declared members in schema order; `mixed`: undeclared ones may also come between them."""

    mixed: bool = False


class Unordered:
    """Members in any order, each declared one at most once; `extra`: undeclared ones are allowed.
    The lowest bits of a state are the required members. The optional members follow, then one bit
    for each undeclared member that must be counted. Optional members that get no bit can be
    repeated, since the state does not record them."""

    start = 0

    def __init__(self, properties: Sequence[Property], extra: bool, presence: Presence):
        required_first = sorted(range(len(properties)), key=lambda i: not properties[i].required)
        self._bits = {index: bit for bit, index in enumerate(required_first[:MAX_BITS])}
        self._untracked = frozenset(required_first[MAX_BITS:])
        self._needed = sum(p.required for p in properties)
        self._declared = len(self._bits)
        self._extra = extra
        self._least, self._most = presence.least, presence.most
        self._top = self._declared  # the index after the last bit
        if extra:
            self._top += self._least if self._most is None else self._most
        required = frozenset(p.key for p in properties if p.required)
        bits = {properties[index].key: bit for index, bit in self._bits.items()}
        self._formula = translate(presence.formula, bits, required)
        spoken: list[int] = []  # the bits of optional members in the formula
        for key in find_keys(presence.formula):
            if key in bits and key not in required:
                spoken.append(bits[key])
        self._fitting = list(filter(self._formula.holds, _subsets(spoken)))
        self._barred = self._find_barred(spoken)

    def _find_barred(self, spoken: Sequence[int]) -> list[int]:
        """Returns the smallest sets of keys with which the formula can never become true."""
        barred: list[int] = []
        for some in _subsets(spoken):
            can_be_met = any(_contains(fitting, some) for fitting in self._fitting)
            if not can_be_met and not any(_contains(some, smaller) for smaller in barred):
                barred.append(some)
        return barred

    @property
    def is_possible(self) -> bool:
        limit = self._top if self._most is None else self._most
        has_enough = self._extra or self._declared >= self._least
        return bool(self._fitting) and has_enough and self.least <= limit

    @property
    def required_bits(self) -> int:
        return (1 << self._needed) - 1

    @property
    def least(self) -> int:
        """The minimum number of members."""
        return max(self._least, self._needed)

    def after(self, index: int) -> SetBit | Keep:
        """Returns the state after this declared member, as a parameter of a rule."""
        if index in self._untracked:
            return KEEP
        return SetBit(self._bits[index])

    @cached_property
    def can_add(self) -> dict[int, Condition]:
        """For each declared member: the condition under which it may come next."""
        conditions = {index: self._allow(bit) for index, bit in self._bits.items()}
        return conditions | dict.fromkeys(self._untracked, ALWAYS)

    def _allow(self, bit: int) -> Condition:
        parts = [_is_clear(bit)]
        for some in self._barred:
            if _has_bit(some, bit):
                others = filter(partial(_has_bit, some & ~(1 << bit)), range(some.bit_length()))
                parts.append(negate(conjoin(map(_is_set, others))))  # not all of them are written
        if bit >= self._needed:  # there is always room for a required member
            parts += self._leave_room()
        return conjoin(parts)

    def _leave_room(self) -> list[Condition]:
        """Returns the conditions for one more member besides the missing required ones."""
        if self._most is None:
            return []
        return [count(self._needed, self._top, low=0, high=self._most - self._needed - 1)]

    @property
    def ways_to_add_extra(self) -> list[tuple[Condition, SetBit | Keep]]:
        """The conditions under which an undeclared member may come next; the states after it."""
        ways: list[tuple[Condition, SetBit | Keep]] = [*self.ways_to_count_extra]
        if self.counted != NEVER:
            ways.append((self.counted, KEEP))
        return ways

    @cached_property
    def ways_to_count_extra(self) -> list[tuple[Condition, SetBit]]:
        """The same for an undeclared member that is counted."""
        ways: list[tuple[Condition, SetBit]] = []
        for bit in range(self._declared, self._top):
            parts = [_is_clear(bit)]
            if bit > self._declared:  # counting sets the lowest bit first
                parts.append(_is_set(bit - 1))
            ways.append((conjoin(parts + self._leave_room()), SetBit(bit)))
        return ways

    @cached_property
    def counted(self) -> Condition:
        """The condition under which undeclared members no longer need counting."""
        if not self._extra or self._most is not None:
            return NEVER
        return count(self._declared, self._top, self._top - self._declared)

    @cached_property
    def can_end(self) -> Condition:
        """The condition under which the object may end."""
        has_enough = count(0, self._top, self._least)
        return conjoin([count(0, self._needed, self._needed), has_enough, self._formula])

    @cached_property
    def can_add_declared(self) -> Condition:
        """The condition under which a declared member may come next."""
        if self._untracked:
            return ALWAYS
        if not self._barred and self._most is None:
            return negate(count(0, self._declared, self._declared))
        return disjoin(self.can_add.values())

    @cached_property
    def can_continue(self) -> Condition:
        """The condition under which another member may come next."""
        return disjoin([self.can_add_declared, *(way for way, _ in self.ways_to_add_extra)])

    def may_end(self, state: int) -> bool:
        return self.can_end.holds(state)

    def may_continue(self, state: int) -> bool:
        return self.can_continue.holds(state)


Members: TypeAlias = Ordered | Unordered


def can_be_unordered(properties: Sequence[Property]) -> bool:
    """Returns whether a state has enough bits for the required members."""
    return sum(declared.required for declared in properties) <= MAX_BITS


def arrange(
    properties: Sequence[Property],
    presence: Presence,
    *,
    extra: bool,
    order: KeyOrder,
    mixed: bool = False,
) -> Members:
    """Chooses how the members of an object are ordered, given the declared ones that can be
    written, in schema order; `extra`, `mixed`: see `Unordered` and `Ordered`."""
    has_one_order = len(properties) + extra <= 1
    is_in_order = order is KeyOrder.SCHEMA or has_one_order or not can_be_unordered(properties)
    if is_in_order and presence == FREE:
        return Ordered(mixed)
    return Unordered(properties, extra, presence)


def _has_bit(bits: int, bit: int) -> bool:
    return bits >> bit & 1 == 1


def _contains(bits: int, some: int) -> bool:
    """Returns whether all bits of `some` are set."""
    return bits & some == some


def _subsets(bits: Sequence[int]) -> Iterator[int]:
    """Yields all sets of these bits, the smallest first."""
    for size in range(len(bits) + 1):
        for some in combinations(bits, size):
            yield sum(1 << bit for bit in some)


def _is_set(bit: int) -> Condition:
    return count(bit, bit + 1, 1)


def _is_clear(bit: int) -> Condition:
    return count(bit, bit + 1, low=0, high=0)
