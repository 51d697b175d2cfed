"""Which keys an object needs beside its required ones: a formula over keys, and limits for their
number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeAlias

from grammars.limits.steps import spend
from grammars.schema.bits import ALWAYS, NEVER, Condition, conjoin, count, negate


@dataclass(frozen=True)
class Has:
    """The object has this key."""

    key: str


@dataclass(frozen=True)
class Not:
    """The formula is false."""

    part: "Formula"


@dataclass(frozen=True)
class All:
    """All of these formulas are true; () is always true."""

    parts: tuple["Formula", ...] = ()


Formula: TypeAlias = Has | Not | All
TRUE = All()
FALSE = Not(TRUE)


@dataclass(frozen=True)
class Presence:
    """A condition on the keys of an object: which it must have, and limits for their number."""

    formula: Formula = TRUE
    least: int = 0
    most: int | None = None


FREE = Presence()
"""Allows every set of keys."""


def find_keys(formula: Formula) -> tuple[str, ...]:
    """Returns the keys in a formula."""
    spend()
    match formula:
        case Has(key):
            return (key,)
        case Not(part):
            return find_keys(part)
        case All(parts):
            return tuple(dict.fromkeys(chain.from_iterable(map(find_keys, parts))))


def find_wanted(formula: Formula, *, denied: bool = False) -> tuple[str, ...]:
    """Returns the keys that a formula requires in some case, not those that it only excludes."""
    match formula:
        case Has(key):
            return () if denied else (key,)
        case Not(part):
            return find_wanted(part, denied=not denied)
        case All(parts):
            found = map(partial(find_wanted, denied=denied), parts)
            return tuple(dict.fromkeys(chain.from_iterable(found)))


def any_of(parts: Sequence[Formula]) -> Formula:
    """Returns the formula that at least one of these is true."""
    return Not(All(tuple(map(Not, parts))))


def translate(formula: Formula, bits: Mapping[str, int], required: frozenset[str]) -> Condition:
    """Converts the formula to a condition on bits: for each possible key, one that is set if the
    object has the key. It always has the required ones."""
    match formula:
        case Has(key):
            if key in required:
                return ALWAYS
            if key not in bits:
                return NEVER
            return count(bits[key], bits[key] + 1, 1)
        case Not(part):
            return negate(translate(part, bits, required))
        case All(parts):
            return conjoin(translate(part, bits, required) for part in parts)


def simplify(presence: Presence, required: Sequence[str], declared: int | None) -> Presence:
    """Removes what is always true from the condition, for objects with these required keys.
    `declared`: how many keys a closed object can have; None: the object is open."""
    formula, least, most = presence.formula, presence.least, presence.most
    optional = [key for key in find_keys(formula) if key not in required]
    bits = {key: bit for bit, key in enumerate(optional)}
    if translate(formula, bits, frozenset(required)) == ALWAYS:
        formula = TRUE
    if least <= len(required):
        least = 0
    if declared is not None and most is not None and most >= declared:
        most = None
    return Presence(formula, least, most)
