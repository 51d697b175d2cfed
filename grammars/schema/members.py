"""In which order the members of an object may come: what may come next, and what is missing."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias

from grammars.schema.nodes import Property
from grammars.schema.presence import FREE, Presence
from grammars.schema.unordered import Size
from grammars.schema.unordered import Unordered as Unordered

MOST_KEYS = 60
"""An object of more declared properties has them in schema order: a rule has 64 bits."""

MOST_BITS = 64


class KeyOrder(StrEnum):
    """In which order objects have their declared keys."""

    ANY = "any"
    SCHEMA = "schema"


class Ordered:
    """Declared members in schema order; a state is an index.

    Args:
        properties: all that can be written.
        extra: may there be undeclared ones?
        mixed: those stand between the others, not behind them.
    """

    start = 0

    def __init__(self, properties: Sequence[Property], extra: bool, mixed: bool = False):
        self._required = [p.required for p in properties]
        self._extra, self.mixed = extra, mixed
        self._needed = max((i + 1 for i, needed in enumerate(self._required) if needed), default=0)

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
        presence: what the keys have to fulfil; that is held in any order only.
        order: in which order declared keys come.
        mixed: in schema order, undeclared keys stand between the declared ones.
    """
    plain = presence == FREE
    alone = len(properties) + extra <= 1 or not properties
    if plain and (order is KeyOrder.SCHEMA or alone or len(properties) > MOST_KEYS):
        return Ordered(properties, extra, mixed)
    return Unordered(properties, extra, presence)
