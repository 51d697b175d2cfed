"""Regular expressions as an algebra, and their derivatives (Brzozowski 1964).

The derivative of an expression with respect to a character matches what may follow that character.
So intersections and complements cost nothing extra, and counted repetitions are not expanded.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from grammars.regex.characters import EVERY, Characters
from grammars.steps import spend

ENDLESS = 10**18
"""The minimum length of an expression that matches nothing."""


class _Known:
    """Base of expressions: hash, minimum length and the like are computed once and kept in its
    `__dict__`, since most of a derivative is part of the expression that it comes from."""

    __match_args__: tuple[str, ...] = ()

    def __hash__(self) -> int:
        known = self.__dict__.get("_hash")
        if known is None:
            fields = (getattr(self, name) for name in self.__match_args__)
            known = self.__dict__["_hash"] = hash((type(self), *fields))
        return known


@dataclass(frozen=True)
class Nothing(_Known):
    """Matches no text."""

    __hash__ = _Known.__hash__


@dataclass(frozen=True)
class Blank(_Known):
    """Matches the empty text."""

    __hash__ = _Known.__hash__


@dataclass(frozen=True)
class One(_Known):
    """Matches one character of a set."""

    __hash__ = _Known.__hash__

    characters: Characters


@dataclass(frozen=True)
class Chain(_Known):
    """Matches one text after the other."""

    __hash__ = _Known.__hash__

    first: "Expression"
    rest: "Expression"


@dataclass(frozen=True)
class Either(_Known):
    """Matches what any option matches."""

    __hash__ = _Known.__hash__

    options: frozenset["Expression"]


@dataclass(frozen=True)
class Both(_Known):
    """Matches what all parts match."""

    __hash__ = _Known.__hash__

    parts: frozenset["Expression"]


@dataclass(frozen=True)
class Other(_Known):
    """Matches what the expression does not match."""

    __hash__ = _Known.__hash__

    than: "Expression"


@dataclass(frozen=True)
class Repeat(_Known):
    """Matches `body`, `fewest` to `most` times (None: no maximum)."""

    __hash__ = _Known.__hash__

    body: "Expression"
    fewest: int = 0
    most: int | None = None


Expression: TypeAlias = Nothing | Blank | One | Chain | Either | Both | Other | Repeat

NOTHING = Nothing()
BLANK = Blank()
ANYTHING = Repeat(One(EVERY))


def chain(*parts: Expression) -> Expression:
    """Returns the concatenation of expressions."""
    return reduce(lambda rest, first: _chain(first, rest), reversed(parts), BLANK)


def _chain(first: Expression, rest: Expression) -> Expression:
    match first, rest:
        case (Nothing(), _) | (_, Nothing()):
            return NOTHING
        case (Blank(), other) | (other, Blank()):
            return other
        case Chain(head, tail), _:
            return Chain(head, _chain(tail, rest))
        case _:
            return Chain(first, rest)


def either(options: Iterable[Expression]) -> Expression:
    """Returns the union of expressions."""
    flat = (o.options if isinstance(o, Either) else {o} for o in options)
    return _join(flat, neutral=NOTHING, absorbing=ANYTHING, kind=Either)


def both(parts: Iterable[Expression]) -> Expression:
    """Returns the intersection of expressions."""
    flat = (p.parts if isinstance(p, Both) else {p} for p in parts)
    return _join(flat, neutral=ANYTHING, absorbing=NOTHING, kind=Both)


def _join(
    parts: Iterable[Set[Expression]],
    neutral: Expression,
    absorbing: Expression,
    kind: Callable[[frozenset[Expression]], Expression],
) -> Expression:
    """Joins the parts in one expression of that kind, without parts that change nothing."""
    flat = frozenset[Expression]().union(*parts) - {neutral}
    if absorbing in flat:
        return absorbing
    return kind(flat) if len(flat) > 1 else next(iter(flat), neutral)


def other(than: Expression) -> Expression:
    """Returns the complement of the expression."""
    if than == ANYTHING:
        return NOTHING
    if than == NOTHING:
        return ANYTHING
    return than.than if isinstance(than, Other) else Other(than)


def repeat(body: Expression, fewest: int, most: int | None) -> Expression:
    """Repeats the expression `fewest` to `most` times (None: no maximum)."""
    if most == 0 or body == BLANK:
        return BLANK
    if body == NOTHING:
        return NOTHING if fewest else BLANK
    if fewest == most == 1:
        return body
    return Repeat(body, 0 if is_nullable(body) else fewest, most)


def list_parts(expression: Expression) -> Iterator[Expression]:
    """Yields the expression and its parts, outermost first; not the parts of intersections and
    complements, since their texts need not be texts of the whole."""
    yield expression
    match expression:
        case Chain(first, rest):
            yield from list_parts(first)
            yield from list_parts(rest)
        case Either(options):
            for option in options:
                yield from list_parts(option)
        case Repeat(body):
            yield from list_parts(body)
        case _:
            return


def is_nullable(expression: Expression) -> bool:
    """True if it matches the empty text."""
    known: bool | None = expression.__dict__.get("_nullable")
    if known is not None:
        return known
    match expression:
        case Blank():
            known = True
        case Nothing() | One():
            known = False
        case Chain(first, rest):
            known = is_nullable(first) and is_nullable(rest)
        case Either(options):
            known = any(map(is_nullable, options))
        case Both(parts):
            known = all(map(is_nullable, parts))
        case Other(than):
            known = not is_nullable(than)
        case Repeat(_, fewest):  # `repeat` gives a nullable body a minimum of 0
            known = fewest == 0
    expression.__dict__["_nullable"] = known
    return known


def derive(expression: Expression, character: str) -> Expression:
    """Returns the derivative: an expression for what may follow that character."""
    spend()
    match expression:
        case Nothing() | Blank():
            return NOTHING
        case One(characters):
            return BLANK if character in characters else NOTHING
        case Chain(first, rest):
            derived = _chain(derive(first, character), rest)
            return either((derived, derive(rest, character))) if is_nullable(first) else derived
        case Either(options):
            return either(derive(option, character) for option in options)
        case Both(parts):
            return both(derive(part, character) for part in parts)
        case Other(than):
            return other(derive(than, character))
        case Repeat(body, fewest, most):
            again = repeat(body, max(0, fewest - 1), None if most is None else most - 1)
            return _chain(derive(body, character), again)


def measure(expression: Expression) -> int:
    """Returns the minimum length of matching texts: exact without `Both` and `Other`, else a lower
    bound."""
    known: int | None = expression.__dict__.get("_least")
    if known is not None:
        return known
    spend()
    match expression:
        case Nothing():
            known = ENDLESS
        case Blank() | Other():
            known = 0
        case One(characters):
            known = 1 if characters.ranges else ENDLESS
        case Chain(first, rest):
            known = min(ENDLESS, measure(first) + measure(rest))
        case Either(options):
            known = min(map(measure, options))
        case Both(parts):
            known = max(map(measure, parts))
        case Repeat(body, fewest):
            known = min(ENDLESS, fewest * measure(body)) if fewest else 0
    expression.__dict__["_least"] = known
    return known


def find_firsts(expression: Expression) -> frozenset[Characters]:
    """The sets that may contain the first character of a matching text."""
    known: frozenset[Characters] | None = expression.__dict__.get("_firsts")
    if known is not None:
        return known
    spend()
    match expression:
        case Nothing() | Blank():
            known = frozenset()
        case One(characters):
            known = frozenset([characters])
        case Chain(first, rest):
            known = find_firsts(first)
            if is_nullable(first):
                known |= find_firsts(rest)
        case Either(several) | Both(several):
            known = frozenset[Characters]().union(*map(find_firsts, several))
        case Other(than):
            known = find_firsts(than) | {EVERY}
        case Repeat(body):
            known = find_firsts(body)
    expression.__dict__["_firsts"] = known
    return known
