"""Which members of an object may come next, and which are missing: in schema order, or in any.

A state of `Unordered` is a number whose bits say which members are written, for the parametric
rules of the grammar just as for the completer.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from grammars.schema.bits import NEVER, Condition, both, count, either, negate
from grammars.schema.nodes import Property
from grammars.schema.presence import FREE, Presence, find_keys, translate

MOST_BITS = 64  # of a parameter of llguidance's rules
MOST_KEYS = 60
"""An object of more declared properties has them in schema order: `MOST_BITS`, less some that count
undeclared members."""

Size: TypeAlias = Callable[[int | None], int | None]
"""How long a member is, with what separates it from others: that of the property with this index,
or an undeclared one (None); None if none can be written."""


class KeyOrder(StrEnum):
    """In which order objects have their declared keys."""

    ANY = "any"
    SCHEMA = "schema"


class Ordered:
    """Declared members in schema order; a state is the index of the first that may come next.

    Args:
        properties: all that can be written.
        extra: may there be undeclared ones?
        mixed: those stand between the others, not behind them.
    """

    start = 0

    def __init__(self, properties: Sequence[Property], extra: bool, mixed: bool = False):
        self._required = [p.required for p in properties]
        self._extra = extra
        self.mixed = mixed
        self._needed = 0  # the state behind the last required member
        for index, required in enumerate(self._required):
            if required:
                self._needed = index + 1

    def reach(self, state: int) -> Iterator[int]:
        """The declared members that may come next: optional ones, and the first required one."""
        for index in range(state, len(self._required)):
            yield index
            if self._required[index]:
                return

    def add(self, state: int, index: int) -> int:
        """The state behind that declared member."""
        return index + 1

    def may_have_extra(self, state: int) -> bool:
        """May an undeclared member come next?"""
        return self._extra and (self.mixed or self.may_end(state))

    def add_extra(self, state: int) -> int:
        """The state behind an undeclared member."""
        return state if self.mixed else len(self._required)

    def may_end(self, state: int) -> bool:
        """Is none missing?"""
        return state >= self._needed

    def may_go_on(self, state: int) -> bool:
        """May another member come?"""
        return self._extra or state < len(self._required)

    def find_missing(self, state: int, size: Size) -> tuple[int | None, ...] | None:
        """The members that have to follow."""
        return tuple(i for i in range(state, self._needed) if self._required[i])


class Unordered:
    """Members in any order, each declared one once.

    The lowest bits of a state are the required members, then come the optional ones, then as many
    as undeclared members have to be counted.

    Args:
        properties: all that can be written.
        extra: may there be undeclared ones?
        presence: the condition on the keys; with a formula, their number is not limited.
    """

    start = 0

    def __init__(self, properties: Sequence[Property], extra: bool, presence: Presence = FREE):
        required_first = sorted(range(len(properties)), key=lambda i: not properties[i].required)
        self._bits = {index: bit for bit, index in enumerate(required_first)}
        self._needed = sum(p.required for p in properties)
        self._declared = len(properties)
        self._extra = extra
        self._least, self._most = presence.least, presence.most
        self._top = self._declared  # behind the last bit
        if extra:
            self._top += self._least if self._most is None else self._most
        required = frozenset(p.key for p in properties if p.required)
        bits = {p.key: self._bits[i] for i, p in enumerate(properties)}
        self._formula = translate(presence.formula, bits, required)
        optional = [k for k in find_keys(presence.formula) if k in bits and k not in required]
        spoken = [bits[key] for key in optional]
        self._spoken = _set_bits(spoken)  # that the formula speaks of
        self._fitting = self._find_fitting(spoken)
        self._barred = self._find_barred(spoken)

    def _find_fitting(self, spoken: Sequence[int]) -> list[int]:
        """The sets of the keys that the formula speaks of which fulfil it, the smallest first."""
        return [some for some in _subsets(spoken) if self._formula.holds(some)]

    def _find_barred(self, spoken: Sequence[int]) -> list[int]:
        """The smallest sets of keys that can never fulfil the formula, whatever is added."""
        barred: list[int] = []
        for some in _subsets(spoken):
            is_hopeless = not any(some & fitting == some for fitting in self._fitting)
            if is_hopeless and not any(some & smaller == smaller for smaller in barred):
                barred.append(some)
        return barred

    @property
    def is_possible(self) -> bool:
        """Is there such an object?"""
        has_enough = self._extra or self._declared >= self._least
        limit = self._top if self._most is None else self._most
        return bool(self._fitting) and has_enough and max(self._needed, self._least) <= limit

    def behind(self, index: int) -> str:
        """The state behind that declared member, as a parameter of a rule."""
        return write_bit(self._bits[index])

    @cached_property
    def can_add(self) -> dict[int, Condition]:
        """When each declared member may come next."""
        return {index: self._find_place(bit) for index, bit in self._bits.items()}

    def _find_place(self, bit: int) -> Condition:
        parts = [_is_clear(bit)]
        for some in self._barred:
            if _has_bit(some, bit):
                parts.append(_lacks(some & ~(1 << bit)))
        if bit >= self._needed:  # for a required member there always is room
            parts += self._leave_room()
        return both(parts)

    def _leave_room(self) -> list[Condition]:
        """There is room for another member, and for all required ones."""
        if self._most is None:
            return []
        return [count(self._needed, self._top, 0, self._most - self._needed - 1)]

    @property
    def ways_to_add_extra(self) -> list[tuple[Condition, str]]:
        """When an undeclared member may come next, and the state behind it: "_" is the same."""
        ways = list(self.ways_to_count_extra)
        if self.counted != NEVER:
            ways.append((self.counted, "_"))
        return ways

    @cached_property
    def ways_to_count_extra(self) -> list[tuple[Condition, str]]:
        """When an undeclared member that is counted may come next, and the state behind it."""
        ways: list[tuple[Condition, str]] = []
        for bit in range(self._declared, self._top):
            parts = [_is_clear(bit)]
            if bit > self._declared:  # they are counted from the lowest bit on
                parts.append(_is_set(bit - 1))
            ways.append((both(parts + self._leave_room()), write_bit(bit)))
        return ways

    @cached_property
    def counted(self) -> Condition:
        """When undeclared members need not be counted any more."""
        if not self._extra or self._most is not None:
            return NEVER
        return count(self._declared, self._top, self._top - self._declared)

    @cached_property
    def can_end(self) -> Condition:
        """When none is missing."""
        has_enough = count(0, self._top, self._least)
        return both([count(0, self._needed, self._needed), has_enough, self._formula])

    @cached_property
    def can_add_declared(self) -> Condition:
        """When one of the declared members may come next."""
        if not self._barred and self._most is None:
            return negate(count(0, self._declared, self._declared))
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
        for bit in range(self._declared, self._top):
            if not _has_bit(state, bit):
                return state | 1 << bit
        return state

    def may_end(self, state: int) -> bool:
        """Is none missing?"""
        return self.can_end.holds(state)

    def may_go_on(self, state: int) -> bool:
        """May another member come?"""
        return self.can_go_on.holds(state)

    def find_missing(self, state: int, size: Size) -> tuple[int | None, ...] | None:
        """The members that have to follow, the shortest ones; None if none can."""
        needed = self._list_absent(state, (1 << self._needed) - 1)
        options: list[list[int | None]] = []
        for fitting in self._fitting:
            is_in_reach = state & self._spoken & ~fitting == 0
            if is_in_reach:
                others = self._list_absent(state, fitting)
                options.append(self._fill_up(state, sorted([*needed, *others]), size))
        if len(options) == 1:
            return tuple(options[0])
        shortest: tuple[int, list[int | None]] | None = None
        for option in options:
            length = _add_up(option, size)
            if length is not None and (shortest is None or length < shortest[0]):
                shortest = length, option
        return None if shortest is None else tuple(shortest[1])

    def _list_absent(self, state: int, wanted: int) -> list[int]:
        """Those of the wanted declared members that are not written."""
        missing = wanted & ~state
        return [index for index, bit in self._bits.items() if _has_bit(missing, bit)]

    def _fill_up(self, state: int, chosen: list[int], size: Size) -> list[int | None]:
        """Those that were chosen, and as many of the shortest others as there have to be."""
        lacking = self._least - state.bit_count() - len(chosen)
        if lacking <= 0:
            return [*chosen]
        every_declared = (1 << self._declared) - 1
        free: list[int | None] = [
            index for index in self._list_absent(state, every_declared) if index not in chosen
        ]
        if self._extra:
            free += [None] * lacking
        sized = [(length, index) for index in free if (length := size(index)) is not None]
        sized.sort(key=lambda pair: pair[0])
        return [*chosen, *(index for _, index in sized[:lacking])]


Members: TypeAlias = Ordered | Unordered


def find_next(members: Members, state: int) -> dict[int | None, int]:
    """The members that may come next, None for an undeclared one, and the state behind each."""
    behind: dict[int | None, int] = {i: members.add(state, i) for i in members.reach(state)}
    if members.may_have_extra(state):
        behind[None] = members.add_extra(state)
    return behind


def arrange(
    properties: Sequence[Property],
    extra: bool,
    presence: Presence,
    order: KeyOrder,
    *,
    mixed: bool = False,
) -> Members:
    """The members of an object.

    Args:
        properties: the declared ones that can be written, in schema order.
        extra: may there be undeclared ones?
        presence: the condition on the keys; it can be enforced in any order only.
        order: in which order declared keys come.
        mixed: in schema order, undeclared keys stand between the declared ones.
    """
    has_one_order = not properties or len(properties) + extra <= 1
    is_in_order = (
        order is KeyOrder.SCHEMA or has_one_order or len(properties) > MOST_KEYS
    ) and presence == FREE
    if is_in_order:
        return Ordered(properties, extra, mixed)
    return Unordered(properties, extra, presence)


def write_bit(bit: int) -> str:
    """The parameter with that bit, in llguidance's Lark dialect."""
    return f"set_bit({bit})"


def _has_bit(bits: int, bit: int) -> bool:
    return bits >> bit & 1 == 1


def _set_bits(bits: Sequence[int]) -> int:
    return sum(1 << bit for bit in bits)


def _subsets(bits: Sequence[int]) -> Iterator[int]:
    """All sets of these bits, the smallest first."""
    for size in range(len(bits) + 1):
        for some in combinations(bits, size):
            yield _set_bits(some)


def _is_set(bit: int) -> Condition:
    return count(bit, bit + 1, 1)


def _is_clear(bit: int) -> Condition:
    return count(bit, bit + 1, 0, 0)


def _lacks(some: int) -> Condition:
    """Not all of these bits are set."""
    return negate(both(_is_set(bit) for bit in range(some.bit_length()) if _has_bit(some, bit)))


def _add_up(chosen: Sequence[int | None], size: Size) -> int | None:
    """How long these members are; None if one of them cannot be written."""
    total = 0
    for index in chosen:
        length = size(index)
        if length is None:
            return None
        total += length
    return total
