"""Regular expressions as an algebra, and their derivatives (Brzozowski 1964).

The derivative of an expression with respect to a character matches what may follow that character.
So intersections and complements cost nothing extra, and counted repetitions are not expanded.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from grammars.limits.steps import spend
from grammars.regex.characters import EVERY, Characters

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
class EmptySet(_Known):
    """Matches no text."""

    __hash__ = _Known.__hash__


@dataclass(frozen=True)
class EmptyString(_Known):
    """Matches the empty text."""

    __hash__ = _Known.__hash__


@dataclass(frozen=True)
class CharacterClass(_Known):
    """Matches one character of a set."""

    __hash__ = _Known.__hash__

    characters: Characters


@dataclass(frozen=True)
class Concatenation(_Known):
    """Matches one text after the other."""

    __hash__ = _Known.__hash__

    first: "Expression"
    rest: "Expression"


@dataclass(frozen=True)
class Alternation(_Known):
    """Matches what any option matches."""

    __hash__ = _Known.__hash__

    options: frozenset["Expression"]


@dataclass(frozen=True)
class RegexIntersection(_Known):
    """Matches what all parts match."""

    __hash__ = _Known.__hash__

    parts: frozenset["Expression"]


@dataclass(frozen=True)
class RegexComplement(_Known):
    """Matches what the expression does not match."""

    __hash__ = _Known.__hash__

    body: "Expression"


@dataclass(frozen=True)
class Repeat(_Known):
    """Matches `body`, `fewest` to `most` times (None: no maximum)."""

    __hash__ = _Known.__hash__

    body: "Expression"
    fewest: int = 0
    most: int | None = None


Expression: TypeAlias = (
    EmptySet
    | EmptyString
    | CharacterClass
    | Concatenation
    | Alternation
    | RegexIntersection
    | RegexComplement
    | Repeat
)

EMPTY_SET = EmptySet()
EMPTY_STRING = EmptyString()
ANYTHING = Repeat(CharacterClass(EVERY))


def concatenate(*parts: Expression) -> Expression:
    """Returns the concatenation of expressions."""
    return reduce(lambda rest, first: _concatenate(first, rest), reversed(parts), EMPTY_STRING)


def _concatenate(first: Expression, rest: Expression) -> Expression:
    match first, rest:
        case (EmptySet(), _) | (_, EmptySet()):
            return EMPTY_SET
        case (EmptyString(), single) | (single, EmptyString()):
            return single
        case Concatenation(head, tail), _:
            return Concatenation(head, _concatenate(tail, rest))
        case _:
            return Concatenation(first, rest)


def alternate(options: Iterable[Expression]) -> Expression:
    """Returns the union of expressions."""
    flat = (o.options if isinstance(o, Alternation) else {o} for o in options)
    return _join(flat, neutral=EMPTY_SET, absorbing=ANYTHING, kind=Alternation)


def intersect(parts: Iterable[Expression]) -> Expression:
    """Returns the intersection of expressions."""
    flat = (p.parts if isinstance(p, RegexIntersection) else {p} for p in parts)
    return _join(flat, neutral=ANYTHING, absorbing=EMPTY_SET, kind=RegexIntersection)


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


def complement(body: Expression) -> Expression:
    """Returns the complement of the expression."""
    if body == ANYTHING:
        return EMPTY_SET
    if body == EMPTY_SET:
        return ANYTHING
    return body.body if isinstance(body, RegexComplement) else RegexComplement(body)


def repeat(body: Expression, fewest: int, most: int | None) -> Expression:
    """Repeats the expression `fewest` to `most` times (None: no maximum)."""
    if most == 0 or body == EMPTY_STRING:
        return EMPTY_STRING
    if body == EMPTY_SET:
        return EMPTY_SET if fewest else EMPTY_STRING
    if fewest == most == 1:
        return body
    return Repeat(body, 0 if is_nullable(body) else fewest, most)


def list_parts(expression: Expression) -> Iterator[Expression]:
    """Yields the expression and its parts, outermost first; not the parts of intersections and
    complements, since their texts need not be texts of the whole."""
    yield expression
    match expression:
        case Concatenation(first, rest):
            yield from list_parts(first)
            yield from list_parts(rest)
        case Alternation(options):
            for option in options:
                yield from list_parts(option)
        case Repeat(body):
            yield from list_parts(body)
        case _:
            return


def is_nullable(expression: Expression) -> bool:
    """Returns whether it matches the empty text."""
    known: bool | None = expression.__dict__.get("_nullable")
    if known is not None:
        return known
    match expression:
        case EmptyString():
            known = True
        case EmptySet() | CharacterClass():
            known = False
        case Concatenation(first, rest):
            known = is_nullable(first) and is_nullable(rest)
        case Alternation(options):
            known = any(map(is_nullable, options))
        case RegexIntersection(parts):
            known = all(map(is_nullable, parts))
        case RegexComplement(body):
            known = not is_nullable(body)
        case Repeat(_, fewest):  # `repeat` gives a nullable body a minimum of 0
            known = fewest == 0
    expression.__dict__["_nullable"] = known
    return known


def derive(expression: Expression, character: str) -> Expression:
    """Returns the derivative: an expression for what may follow that character."""
    spend()
    match expression:
        case EmptySet() | EmptyString():
            return EMPTY_SET
        case CharacterClass(characters):
            return EMPTY_STRING if character in characters else EMPTY_SET
        case Concatenation(first, rest):
            derived = _concatenate(derive(first, character), rest)
            return alternate((derived, derive(rest, character))) if is_nullable(first) else derived
        case Alternation(options):
            return alternate(derive(option, character) for option in options)
        case RegexIntersection(parts):
            return intersect(derive(part, character) for part in parts)
        case RegexComplement(body):
            return complement(derive(body, character))
        case Repeat(body, fewest, most):
            again = repeat(body, max(0, fewest - 1), None if most is None else most - 1)
            return _concatenate(derive(body, character), again)


def measure(expression: Expression) -> int:
    """Returns the minimum length of matching texts: exact without `Both` and `Other`, else a lower
    bound."""
    known: int | None = expression.__dict__.get("_least")
    if known is not None:
        return known
    spend()
    match expression:
        case EmptySet():
            known = ENDLESS
        case EmptyString() | RegexComplement():
            known = 0
        case CharacterClass(characters):
            known = 1 if characters.ranges else ENDLESS
        case Concatenation(first, rest):
            known = min(ENDLESS, measure(first) + measure(rest))
        case Alternation(options):
            known = min(map(measure, options))
        case RegexIntersection(parts):
            known = max(map(measure, parts))
        case Repeat(body, fewest):
            known = min(ENDLESS, fewest * measure(body)) if fewest else 0
    expression.__dict__["_least"] = known
    return known


def find_firsts(expression: Expression) -> frozenset[Characters]:
    """Returns the sets that may contain the first character of a matching text."""
    known: frozenset[Characters] | None = expression.__dict__.get("_firsts")
    if known is not None:
        return known
    spend()
    match expression:
        case EmptySet() | EmptyString():
            known = frozenset()
        case CharacterClass(characters):
            known = frozenset([characters])
        case Concatenation(first, rest):
            known = find_firsts(first)
            if is_nullable(first):
                known |= find_firsts(rest)
        case Alternation(several) | RegexIntersection(several):
            known = frozenset[Characters]().union(*map(find_firsts, several))
        case RegexComplement(body):
            known = find_firsts(body) | {EVERY}
        case Repeat(body):
            known = find_firsts(body)
    expression.__dict__["_firsts"] = known
    return known
