"""Members of an object in any order: what may come next, and what is missing.

A state is a number whose bits say which members are written, for the parametric rules of the
grammar just as for the completer.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from grammars.schema.bits import (
    KEEP,
    NEVER,
    Condition,
    Keep,
    SetBit,
    both,
    count,
    either,
    negate,
)
from grammars.schema.nodes import Property
from grammars.schema.presence import FREE, Presence, find_keys, translate

Size: TypeAlias = Callable[[int | None], int | None]
"""How long a member is, with what separates it from others: that of the property with this index,
or an undeclared one (None); None if none can be written."""


class Unordered:
    """Members in any order, each declared one once.

    The lowest bits are the required ones, then the optional ones, then as many as undeclared
    members have to be counted.

    Args:
        properties: all that can be written.
        extra: may there be undeclared ones?
        presence: what the keys have to fulfil; with a formula, their number is not limited.
    """

    start = 0

    def __init__(self, properties: Sequence[Property], extra: bool, presence: Presence = FREE):
        order = sorted(range(len(properties)), key=lambda i: not properties[i].required)
        self._bits = {index: bit for bit, index in enumerate(order)}
        self._needed = sum(p.required for p in properties)
        self._count, self._extra = len(properties), extra
        self._least, self._most = presence.least, presence.most
        limit = self._least if self._most is None else self._most
        self._top = self._count + (limit if extra else 0)
        required = frozenset(p.key for p in properties if p.required)
        bits = {p.key: self._bits[i] for i, p in enumerate(properties)}
        self._formula = translate(presence.formula, bits, required)
        spoken = [k for k in find_keys(presence.formula) if k in bits and k not in required]
        self._spoken = sum(1 << bits[key] for key in spoken)
        self._fitting = self._find_fitting([bits[key] for key in spoken])
        self._barred = self._find_barred([bits[key] for key in spoken])

    def _find_fitting(self, spoken: Sequence[int]) -> list[int]:
        """The sets of the keys that the formula speaks of which fulfil it, the smallest first."""
        return [s for s in _subsets(spoken) if self._formula.holds(s)]

    def _find_barred(self, spoken: Sequence[int]) -> list[int]:
        """The smallest sets of keys that can never fulfil the formula, whatever is added."""
        barred: list[int] = []
        for some in _subsets(spoken):
            hopeless = not any(some & fit == some for fit in self._fitting)
            if hopeless and not any(some & less == less for less in barred):
                barred.append(some)
        return barred

    @property
    def is_possible(self) -> bool:
        """Is there such an object?"""
        enough = self._extra or self._count >= self._least
        limit = self._top if self._most is None else self._most
        return bool(self._fitting) and enough and max(self._needed, self._least) <= limit

    @property
    def required_bits(self) -> int:
        """The bits of the required members."""
        return (1 << self._needed) - 1

    @property
    def least(self) -> int:
        """How many members there are at least."""
        return max(self._least, self._needed)

    def behind(self, index: int) -> SetBit:
        """The state behind that declared member, as a parameter."""
        return SetBit(self._bits[index])

    @cached_property
    def can_add(self) -> dict[int, Condition]:
        """When each declared member may come next."""
        return {index: self._find_place(bit) for index, bit in self._bits.items()}

    def _find_place(self, bit: int) -> Condition:
        parts = [count(bit, bit + 1, 0, 0)]
        for some in self._barred:
            if some >> bit & 1:
                parts.append(_lacks(some & ~(1 << bit)))
        return both(parts + self._room(bit < self._needed))

    def _room(self, required: bool = False) -> list[Condition]:
        """There is room for another member, and for all required ones."""
        if self._most is None or required:
            return []
        return [count(self._needed, self._top, 0, self._most - self._needed - 1)]

    @property
    def ways_to_add_extra(self) -> list[tuple[Condition, SetBit | Keep]]:
        """When an undeclared member may come next, and the state behind it."""
        ways: list[tuple[Condition, SetBit | Keep]] = [*self.ways_to_count_extra]
        if self.counted != NEVER:
            ways.append((self.counted, KEEP))
        return ways

    @cached_property
    def ways_to_count_extra(self) -> list[tuple[Condition, SetBit]]:
        """The same where it has to be counted."""
        ways: list[tuple[Condition, SetBit]] = []
        for bit in range(self._count, self._top):
            before = [count(bit - 1, bit, 1)] if bit > self._count else []
            way = both([count(bit, bit + 1, 0, 0), *before, *self._room()])
            ways.append((way, SetBit(bit)))
        return ways

    @cached_property
    def counted(self) -> Condition:
        """When undeclared members need not be counted any more."""
        if not self._extra or self._most is not None:
            return NEVER
        return count(self._count, self._top, self._top - self._count)

    @cached_property
    def can_end(self) -> Condition:
        """When none is missing."""
        least = count(0, self._top, self._least)
        return both([count(0, self._needed, self._needed), least, self._formula])

    @cached_property
    def can_add_declared(self) -> Condition:
        """When one of the declared members may come next."""
        if not self._barred and self._most is None:
            return negate(count(0, self._count, self._count))
        return either(self.can_add.values())

    @cached_property
    def can_go_on(self) -> Condition:
        """When another member may come."""
        return either([self.can_add_declared, *(way for way, _ in self.ways_to_add_extra)])

    def reach(self, state: int) -> Iterator[int]:
        """The declared members that may come next."""
        return (index for index, way in sorted(self.can_add.items()) if way.holds(state))

    def add(self, state: int, index: int) -> int:
        """The state behind that declared member."""
        return state | 1 << self._bits[index]

    def may_have_extra(self, state: int) -> bool:
        """May an undeclared member come next?"""
        return any(way.holds(state) for way, _ in self.ways_to_add_extra)

    def add_extra(self, state: int) -> int:
        """The state behind an undeclared member."""
        free = (bit for bit in range(self._count, self._top) if not state >> bit & 1)
        return state | sum(1 << bit for bit in list(free)[:1])

    def may_end(self, state: int) -> bool:
        """Is none missing?"""
        return self.can_end.holds(state)

    def may_go_on(self, state: int) -> bool:
        """May another member come?"""
        return self.can_go_on.holds(state)

    def find_missing(self, state: int, size: Size) -> tuple[int | None, ...] | None:
        """The members that have to follow, the shortest ones; None if none can."""
        needed = self._find_needed(state)
        options: list[list[int | None]] = []
        for fit in self._fitting:
            if state & self._spoken & ~fit == 0:
                others = (i for i, bit in self._bits.items() if (fit & ~state) >> bit & 1)
                options.append(self._fill(state, sorted([*needed, *others]), size))
        if len(options) == 1:
            return tuple(options[0])
        lengths = [(total, i) for i, o in enumerate(options) if (total := _add_up(o, size))]
        return tuple(options[min(lengths)[1]]) if lengths else None

    def _find_needed(self, state: int) -> list[int]:
        """The required members that are not there."""
        return [i for i, bit in self._bits.items() if bit < self._needed and not state >> bit & 1]

    def _fill(self, state: int, chosen: list[int], size: Size) -> list[int | None]:
        """Those that were chosen, and as many of the shortest others as there have to be."""
        lacking = self._least - state.bit_count() - len(chosen)
        if lacking <= 0:
            return [*chosen]
        free: list[int | None] = [
            i for i, bit in self._bits.items() if i not in chosen and not state >> bit & 1
        ]
        free += [None] * lacking if self._extra else []
        sizes = {i: found for i in free if (found := size(i)) is not None}
        shortest = sorted((i for i in free if i in sizes), key=sizes.__getitem__)
        return [*chosen, *shortest[:lacking]]


def _subsets(bits: Sequence[int]) -> Iterator[int]:
    """All sets of these bits, the smallest first."""
    for size in range(len(bits) + 1):
        for some in combinations(bits, size):
            yield sum(1 << bit for bit in some)


def _lacks(some: int) -> Condition:
    """Not all of these bits are set."""
    bits = [bit for bit in range(some.bit_length()) if some >> bit & 1]
    return negate(both(count(bit, bit + 1, 1) for bit in bits))


def _add_up(chosen: Sequence[int | None], size: Size) -> int | None:
    """How long these members are, and one more: 0 is nothing that is missing."""
    sizes = [size(i) for i in chosen]
    return None if None in sizes else 1 + sum(filter(None, sizes))
