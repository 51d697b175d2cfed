"""Which keys an object has to have beside those that it always has: a formula over its keys, and
how many there may be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grammars.schema.bits import ALWAYS, NEVER, Condition, both, count, negate


@dataclass(frozen=True)
class Has:
    """The object has that key."""

    key: str


@dataclass(frozen=True)
class Not:
    """The opposite."""

    part: "Formula"


@dataclass(frozen=True)
class All:
    """All of these; () is always so."""

    parts: tuple["Formula", ...] = ()


Formula: TypeAlias = Has | Not | All
TRUE = All()
FALSE = Not(TRUE)


@dataclass(frozen=True)
class Presence:
    """What the keys of an object have to fulfil.

    Args:
        formula: which of the keys there have to be.
        least, most: how many keys there are.
    """

    formula: Formula = TRUE
    least: int = 0
    most: int | None = None


FREE = Presence()
"""Nothing to fulfil."""


def find_keys(formula: Formula) -> tuple[str, ...]:
    """The keys that a formula speaks of."""
    match formula:
        case Has(key):
            return (key,)
        case Not(part):
            return find_keys(part)
        case All(parts):
            return tuple(dict.fromkeys(key for part in parts for key in find_keys(part)))


def find_wanted(formula: Formula, *, denied: bool = False) -> tuple[str, ...]:
    """The keys that a formula asks for; not those that it only speaks of to deny them."""
    match formula:
        case Has(key):
            return () if denied else (key,)
        case Not(part):
            return find_wanted(part, denied=not denied)
        case All(parts):
            found = (key for part in parts for key in find_wanted(part, denied=denied))
            return tuple(dict.fromkeys(found))


def any_of(parts: Sequence[Formula]) -> Formula:
    """One of these at least."""
    return Not(All(tuple(Not(part) for part in parts)))


def translate(formula: Formula, bits: Mapping[str, int], required: frozenset[str]) -> Condition:
    """The formula over bits, each the presence of a key; required keys are there, others not."""
    match formula:
        case Has(key):
            if key in required:
                return ALWAYS
            return count(bits[key], bits[key] + 1, 1) if key in bits else NEVER
        case Not(part):
            return negate(translate(part, bits, required))
        case All(parts):
            return both(translate(part, bits, required) for part in parts)


def simplify(presence: Presence, required: Sequence[str], count: int | None) -> Presence:
    """The same without what these required keys fulfil, or what a closed object of so many
    declared keys always does."""
    keys = find_keys(presence.formula)
    bits = {key: bit for bit, key in enumerate(key for key in keys if key not in required)}
    is_true = translate(presence.formula, bits, frozenset(required)) == ALWAYS
    least = 0 if presence.least <= len(required) else presence.least
    is_wide = count is not None and presence.most is not None and presence.most >= count
    most = None if is_wide else presence.most
    return Presence(TRUE if is_true else presence.formula, least, most)
