"""Regular expressions as an algebra, and their derivatives (Brzozowski 1964).

The derivative of an expression with respect to a character matches what may follow that character.
So intersections and complements cost nothing extra, and counted repetitions are not expanded.

Assertions match no character. A look-ahead is a condition on the rest of the text, so it is an
intersection with what stands after it. A look-behind is a condition on the text so far: it carries
an expression for it, which is derived with each character, too. Only an expression for a whole text
can have assertions; one without any is called plain.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, TypeVar, dataclass_transform

from grammars.limits.steps import spend
from grammars.regex.characters import EVERY, Characters

T = TypeVar("T")

ENDLESS = 10**18
"""The minimum length of an expression that matches nothing, and the maximum length of one that
matches texts of any length."""


@dataclass_transform(frozen_default=True)
def _expression(kind: type[T]) -> type[T]:
    """Makes an expression: a frozen dataclass whose hash, minimum length and the like are computed
    once and kept in its `__dict__`, since most of a derivative is part of the expression that it
    comes from."""
    made = dataclass(frozen=True)(kind)
    find_hash = made.__hash__

    def find_known_hash(self: T) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = hash((kind, find_hash(self)))
        return known

    made.__hash__ = find_known_hash
    return made


@_expression
class EmptySet:
    """Matches no text."""


@_expression
class EmptyString:
    """Matches the empty text."""


@_expression
class CharacterClass:
    """Matches one character of a set."""

    characters: Characters


@_expression
class Concatenation:
    """Matches one text after the other."""

    first: "Expression"
    rest: "Expression"


@_expression
class Alternation:
    """Matches what any option matches."""

    options: frozenset["Expression"]


@_expression
class RegexIntersection:
    """Matches what all parts match."""

    parts: frozenset["Expression"]


@_expression
class RegexComplement:
    """Matches what the expression does not match."""

    body: "Expression"


@_expression
class Repeat:
    """Matches `body`, `fewest` to `most` times (None: no maximum)."""

    body: "Expression"
    fewest: int = 0
    most: int | None = None


@_expression
class LookAhead:
    """Matches the empty text where the rest of the text matches `rest`."""

    rest: "Expression"


@_expression
class LookBehind:
    """Matches the empty text where the text so far matches `before`. The last `reach` characters
    decide that; None: all of it may."""

    before: "Expression"
    reach: int | None = None


Expression: TypeAlias = (
    EmptySet
    | EmptyString
    | CharacterClass
    | Concatenation
    | Alternation
    | RegexIntersection
    | RegexComplement
    | Repeat
    | LookAhead
    | LookBehind
)

_known: ContextVar[dict[tuple[Expression, str], Expression] | None]
_known = ContextVar("derivatives", default=None)

EMPTY_SET = EmptySet()
EMPTY_STRING = EmptyString()
ANYTHING = Repeat(CharacterClass(EVERY))


def concatenate(*parts: Expression) -> Expression:
    return reduce(lambda rest, first: _concatenate(first, rest), reversed(parts), EMPTY_STRING)


def _concatenate(first: Expression, rest: Expression) -> Expression:
    heads: list[Expression] = []
    while isinstance(first, Concatenation):
        heads.append(first.first)
        first = first.rest
    heads.append(first)
    for head in reversed(heads):
        rest = _prepend(head, rest)
    return rest


def _prepend(first: Expression, rest: Expression) -> Expression:
    match first, rest:
        case (EmptySet(), _) | (_, EmptySet()):
            return EMPTY_SET
        case (EmptyString(), single) | (single, EmptyString()):
            return single
        case _, Concatenation(again) if first is again is ANYTHING:
            return rest
        case _ if first is rest is ANYTHING:
            return rest
        case _:
            whole = Concatenation(first, rest)
            hash(whole)  # that of the rest is known already, so nothing recurses along a text
            is_plain(whole)
            return whole


def alternate(options: Iterable[Expression]) -> Expression:
    flat = (o.options if isinstance(o, Alternation) else {o} for o in options)
    return _join(flat, neutral=EMPTY_SET, absorbing=ANYTHING, kind=Alternation)


def intersect(parts: Iterable[Expression]) -> Expression:
    flat = (p.parts if isinstance(p, RegexIntersection) else {p} for p in parts)
    joined = _join(flat, neutral=ANYTHING, absorbing=EMPTY_SET, kind=RegexIntersection)
    if isinstance(joined, RegexIntersection) and EMPTY_STRING in joined.parts and is_plain(joined):
        return EMPTY_STRING if is_nullable(joined) else EMPTY_SET
    return joined


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
    return Repeat(body, 0 if is_plain(body) and is_nullable(body) else fewest, most)


def list_children(expression: Expression) -> Iterable[Expression]:
    """Returns the expressions that this one consists of."""
    match expression:
        case Concatenation(first, rest):
            return first, rest
        case Alternation(several) | RegexIntersection(several):
            return several
        case Repeat(body) | RegexComplement(body) | LookAhead(body) | LookBehind(body):
            return (body,)
        case _:
            return ()


def list_parts(expression: Expression) -> Iterator[Expression]:
    """Yields the expression and all its parts."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += list_children(part)


def list_items(expression: Expression) -> list[Expression]:
    """Returns the parts of a concatenation, or the expression itself."""
    items: list[Expression] = []
    while isinstance(expression, Concatenation):
        items.append(expression.first)
        expression = expression.rest
    return [*items, expression]


def is_plain(expression: Expression) -> bool:
    """Returns whether the expression has no assertions."""
    known: bool | None = expression.__dict__.get("_plain")
    if known is None:
        is_assertion = isinstance(expression, LookAhead | LookBehind)
        known = not is_assertion and all(map(is_plain, list_children(expression)))
        expression.__dict__["_plain"] = known
    return known


def is_nullable(expression: Expression) -> bool:
    """Returns whether it matches the empty text; with assertions: at the end of the text."""
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
        case Repeat(body, fewest):
            known = fewest == 0 or is_nullable(body)
        case LookAhead(condition) | LookBehind(condition):
            known = is_nullable(condition)
    expression.__dict__["_nullable"] = known
    return known


@contextmanager
def keep_derivatives() -> Generator[None]:
    """Inside the `with` block, each derivative is computed once: the states of an automaton have
    most of their parts in common. Not for automata of texts, which forget their states."""
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def derive(expression: Expression, character: str) -> Expression:
    """Returns the derivative: an expression for what may follow that character."""
    spend()
    known = _known.get()
    if known is None:
        return _derive_anew(expression, character)
    key = expression, character
    if key not in known:
        known[key] = _derive_anew(expression, character)
    return known[key]


def _derive_anew(expression: Expression, character: str) -> Expression:
    match expression:
        case EmptySet() | EmptyString() | LookAhead() | LookBehind():
            return EMPTY_SET
        case CharacterClass(characters):
            return EMPTY_STRING if character in characters else EMPTY_SET
        case Concatenation(first, rest) if not is_plain(expression):
            passing = intersect((find_condition(first), rest))
            return alternate((_consume(first, rest, character), derive(passing, character)))
        case Concatenation(first, rest):
            derived = _concatenate(derive(first, character), rest)
            return alternate((derived, derive(rest, character))) if is_nullable(first) else derived
        case Alternation(options):
            return alternate(derive(option, character) for option in options)
        case RegexIntersection(parts):
            return intersect(derive(part, character) for part in parts)
        case RegexComplement(body):
            return complement(derive(body, character))
        case Repeat() if not is_plain(expression):
            return _consume(expression, EMPTY_STRING, character)
        case Repeat(body, fewest, most):
            again = repeat(body, max(0, fewest - 1), None if most is None else most - 1)
            return _concatenate(derive(body, character), again)


def _consume(expression: Expression, rest: Expression, character: str) -> Expression:
    """Returns the derivative of the expression and the rest after it, if the expression itself
    matches the character. The rest goes along, since a look-ahead inside of a repetition sees it,
    and look-behinds in it see the character."""
    match expression:
        case Concatenation(first, second):
            once = _consume(first, _concatenate(second, rest), character)
            condition = derive(find_condition(first), character)
            if condition == EMPTY_SET:
                return once
            return alternate((once, intersect((condition, _consume(second, rest, character)))))
        case Alternation(options):
            return alternate(_consume(option, rest, character) for option in options)
        case Repeat(body, fewest, most) if not is_plain(body):
            left = None if most is None else most - 1
            again = repeat(body, max(0, fewest - 1), left)
            once = _consume(body, _concatenate(again, rest), character)
            if fewest <= 1:
                return once
            # Some of the repetitions may match the empty text, where its conditions hold.
            freely = _consume(body, _concatenate(repeat(body, 0, left), rest), character)
            return alternate((once, intersect((derive(find_condition(body), character), freely))))
        case LookAhead() | LookBehind():
            return EMPTY_SET
        case _:
            return _concatenate(derive(expression, character), advance(rest, character))


def find_condition(expression: Expression) -> Expression:
    """Returns the condition on the rest of the text under which the expression matches the empty
    text here."""
    match expression:
        case LookAhead(rest):
            return rest
        case LookBehind(before):
            return ANYTHING if is_nullable(before) else EMPTY_SET
        case Concatenation(first, rest):
            return intersect((find_condition(first), find_condition(rest)))
        case Alternation(options):
            return alternate(map(find_condition, options))
        case Repeat(body, fewest):
            return find_condition(body) if fewest else ANYTHING
        case _:
            return ANYTHING if is_nullable(expression) else EMPTY_SET


def advance(expression: Expression, character: str) -> Expression:
    """Returns the expression for a place behind this character: its look-behinds have seen it."""
    return map_look_behinds(expression, lambda before: derive(before, character))


def map_look_behinds(
    expression: Expression, change: Callable[[Expression], Expression]
) -> Expression:
    """Changes the expressions for the text so far in all look-behinds."""
    if is_plain(expression):
        return expression

    def inner(part: Expression) -> Expression:
        return map_look_behinds(part, change)

    match expression:
        case LookBehind(before, reach):
            return LookBehind(change(before), reach)
        case LookAhead(rest):
            return LookAhead(inner(rest))
        case Concatenation(first, rest):
            return _concatenate(inner(first), inner(rest))
        case Alternation(options):
            return alternate(map(inner, options))
        case RegexIntersection(parts):
            return intersect(map(inner, parts))
        case RegexComplement(body):
            return complement(inner(body))
        case Repeat(body, fewest, most):
            return Repeat(inner(body), fewest, most)
        case _:
            return expression


def measure_longest(expression: Expression) -> int:
    """Returns the maximum length of matching texts, as an upper bound; `ENDLESS`: there is none."""
    match expression:
        case EmptySet() | EmptyString() | LookAhead() | LookBehind():
            return 0
        case CharacterClass():
            return 1
        case Concatenation():
            return min(ENDLESS, sum(map(measure_longest, list_items(expression))))
        case Alternation(options):
            return max(map(measure_longest, options))
        case RegexIntersection(parts):
            return min(map(measure_longest, parts))
        case RegexComplement():
            return ENDLESS
        case Repeat(body, _, most):
            return ENDLESS if most is None else min(ENDLESS, most * measure_longest(body))


def measure(expression: Expression) -> int:
    """Returns the minimum length of matching texts: exact without intersections, complements and
    assertions, else a lower bound."""
    known: int | None = expression.__dict__.get("_least")
    if known is not None:
        return known
    spend()
    match expression:
        case EmptySet():
            known = ENDLESS
        case EmptyString() | RegexComplement() | LookAhead() | LookBehind():
            known = 0
        case CharacterClass(characters):
            known = 1 if characters.ranges else ENDLESS
        case Concatenation():
            known = _measure_chain(expression)
        case Alternation(options):
            known = min(map(measure, options))
        case RegexIntersection(parts):
            known = max(map(measure, parts))
        case Repeat(body, fewest):
            known = min(ENDLESS, fewest * measure(body)) if fewest else 0
    expression.__dict__["_least"] = known
    return known


def _measure_chain(expression: Concatenation) -> int:
    """Measures a concatenation, and each of its ends on the way: a text is as many states long."""
    chain: list[Concatenation] = []
    rest: Expression = expression
    while isinstance(rest, Concatenation) and "_least" not in rest.__dict__:
        chain.append(rest)
        rest = rest.rest
    total = measure(rest)
    for part in reversed(chain):
        total = part.__dict__["_least"] = min(ENDLESS, measure(part.first) + total)
    return total


def find_firsts(expression: Expression) -> frozenset[Characters]:
    """Returns the sets that may contain the first character of a matching text."""
    known: frozenset[Characters] | None = expression.__dict__.get("_firsts")
    if known is not None:
        return known
    spend()
    match expression:
        case EmptySet() | EmptyString():
            known = frozenset[Characters]()
        case CharacterClass(characters):
            known = frozenset([characters])
        case Concatenation(first, rest):
            known = find_firsts(first)
            # Look-behinds further on see the character, too.
            if is_nullable(first) or not is_plain(expression):
                known |= find_firsts(rest)
        case Alternation(several) | RegexIntersection(several):
            known = frozenset[Characters]().union(*map(find_firsts, several))
        case RegexComplement(body):
            known = find_firsts(body) | {EVERY}
        case Repeat(body) | LookAhead(body) | LookBehind(body):
            known = find_firsts(body)
    expression.__dict__["_firsts"] = known
    return known
