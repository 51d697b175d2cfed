"""Rewrites expressions without assertions, in the algebra of expressions.

`A(?=B)C` is `A` and then both `B` with any text and `C`; `(?!B)` is the complement. A look-behind
is the same for what stands before it. Where that is not enough (in a repetition, or where the texts
of a look-ahead and of a look-behind overlap), the automaton is built and written back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grammars.limits.steps import spend
from grammars.regex.automaton import Automaton
from grammars.regex.characters import EVERY, Characters, partition
from grammars.regex.deterministic import (
    DeterministicState,
    TooManyStatesError,
    determinize,
    explore,
    minimize,
    write_back,
)
from grammars.regex.expressions import (
    ANYTHING,
    EMPTY_SET,
    EMPTY_STRING,
    ENDLESS,
    Alternation,
    CharacterClass,
    Concatenation,
    Expression,
    LookAhead,
    LookBehind,
    RegexComplement,
    RegexIntersection,
    alternate,
    complement,
    concatenate,
    derive,
    find_condition,
    find_firsts,
    intersect,
    is_nullable,
    is_plain,
    list_parts,
    map_look_behinds,
    measure,
    measure_longest,
)

_MAX_STATES, _MAX_SIZE = 300, 1_000
"""The limits for a part that is written back from its automaton."""
_MAX_BEHIND_STATES = 120
_MAX_BRANCHES = 400
_MAX_PAIRS = 500
_MAX_EXPLORED = 40  # states that are looked at for a simpler form


class _Branches:
    """Counts the branches that alternatives multiply to; `resolved`: what is rewritten already."""

    def __init__(self) -> None:
        self.left = _MAX_BRANCHES
        self.resolved: dict[Expression, Expression] = {}

    def enter(self) -> None:
        """Counts one more; raises TooManyStatesError."""
        spend()
        self.left -= 1
        if self.left < 0:
            raise TooManyStatesError(f"more than {_MAX_BRANCHES:,} branches")


def remove_assertions(expression: Expression) -> Expression:
    """Returns a plain expression for the same whole texts; raises TooManyStatesError."""
    return _resolve(expression, _Branches())


@dataclass(frozen=True)
class _Around:
    """What stands beside assertions, without any; `is_start`: the text begins with `before`;
    `is_end`: it ends after `after`."""

    before: Expression
    after: Expression
    is_start: bool
    is_end: bool

    def reaches(self, reach: int | None) -> bool:
        """Returns whether as many characters stand before."""
        return self.is_start or (reach is not None and reach <= measure(self.before))

    def decides(self, rest: Expression) -> bool:
        """Returns whether each text of `after` decides if a text that goes on is in `rest`."""
        queue = [(self.after, rest)]
        seen = set(queue)
        while queue and not self.is_end:
            text, condition = queue.pop()
            if condition in (EMPTY_SET, ANYTHING):
                continue
            if is_nullable(text) or len(seen) > _MAX_PAIRS:
                return False
            for cell in partition(find_firsts(text) | find_firsts(condition)):
                character = chr(cell.ranges[0][0])
                following = derive(text, character), derive(condition, character)
                if following[0] != EMPTY_SET and following not in seen:
                    seen.add(following)
                    queue.append(following)
        return True


def look_ahead(body: Expression, *, is_negative: bool = False) -> Expression:
    """Returns the condition that a text of the body follows."""
    rest = concatenate(body, ANYTHING)
    return LookAhead(complement(rest) if is_negative else rest)


_HERE = LookAhead(CharacterClass(Characters(())))
"""The end of a look-behind, which no character may follow."""


def look_behind(body: Expression, *, is_negative: bool = False) -> Expression:
    """Returns the condition that the text so far ends with a text of the body; raises
    TooManyStatesError if a look-ahead inside of it may see more than the text so far, and what it
    can have seen of it are too many cases."""
    parts = list(list_parts(body))
    reaches = [part.reach for part in parts if isinstance(part, LookBehind)]
    longest, reach = measure_longest(body), None
    if longest < ENDLESS and None not in reaches:
        reach = longest + max(filter(None, reaches), default=0)
    texts = concatenate(ANYTHING, body)
    if not any(isinstance(part, LookAhead) for part in parts):
        return LookBehind(complement(texts) if is_negative else texts, reach)
    states, values = _explore_all((concatenate(texts, _HERE, ANYTHING),))
    asked = [_decide(_ask(value)) for (value,) in values]
    options: list[Expression] = []
    for condition in dict.fromkeys(asked):
        ending: list[DeterministicState] = []
        for state, its_condition in zip(states, asked, strict=True):
            ending.append(replace(state, accepts=its_condition == condition))
        before = write_back(minimize(ending), _MAX_SIZE)
        rest = complement(condition) if is_negative else condition
        options.append(concatenate(LookBehind(before, reach), LookAhead(rest)))
    return alternate(options)


def _ask(state: Expression) -> Expression:
    """Returns the condition on the rest of the text under which a look-behind that has this left to
    match ends here."""
    spend()
    match state:
        case Concatenation(first) if first == _HERE:
            return ANYTHING
        case _ if _HERE not in list_parts(state):  # what a look-ahead has left
            return state
        case Concatenation(first, rest):
            return intersect((find_condition(first), _ask(rest)))
        case Alternation(options):
            return alternate(map(_ask, options))
        case RegexIntersection(parts):
            return intersect(map(_ask, parts))
        case _:
            raise AssertionError(state)


def _decide(condition: Expression) -> Expression:
    """Returns a condition on the rest of the text without its look-behinds, which have seen the
    text so far, unless one of them stands further on."""
    match condition:
        case _ if not _list_behinds(condition):
            return condition
        case LookBehind(before):
            return EMPTY_STRING if is_nullable(before) else EMPTY_SET
        case LookAhead(rest):
            return LookAhead(_decide(rest))
        case Concatenation(first, rest) if _list_assertions(first) is not None:
            return concatenate(_decide(first), _decide(rest))
        case Alternation(options):
            return alternate(map(_decide, options))
        case RegexIntersection(parts):
            return intersect(map(_decide, parts))
        case RegexComplement(body):
            return complement(_decide(body))
        case _:
            raise TooManyStatesError("a look-behind further on in a look-behind")


def settle(items: Sequence[Expression]) -> Expression:
    """Concatenates the items. Assertions that the items beside them decide are removed, wherever
    the result will stand: in `(?!-)[a-z-]{2}`, the look-ahead sees no further than the item."""
    parts = list(items)
    at = len(parts)
    while at > 0:
        at -= 1
        options = _list_assertions(parts[at])
        if options is None:
            continue
        start = at - _count_plain(parts[:at][::-1])
        end = at + 1 + _count_plain(parts[at + 1 :])
        around = _Around(
            before=concatenate(*parts[start:at]),
            after=concatenate(*parts[at + 1 : end]),
            is_start=start > 0 and parts[start - 1] == LookBehind(EMPTY_STRING),
            is_end=end < len(parts) and parts[end] == LookAhead(EMPTY_STRING),
        )
        settled = [_settle_between(around, option) for option in options]
        if any(texts is not None for texts in settled):
            pairs = zip(options, settled, strict=True)
            ways = [
                texts or concatenate(around.before, *left, around.after) for left, texts in pairs
            ]
            parts[start:end] = [alternate(ways)]
            at = start
    return concatenate(*parts)


def _count_plain(parts: Sequence[Expression]) -> int:
    """Returns how many of the first parts have no assertions."""
    return next((i for i, part in enumerate(parts) if not is_plain(part)), len(parts))


def _list_assertions(expression: Expression) -> list[list[LookAhead | LookBehind]] | None:
    """Returns the assertions of an expression that is nothing else: for each of its alternatives,
    those that hold together. None: it is something else."""
    match expression:
        case LookAhead() | LookBehind():
            return [[expression]]
        case Concatenation(first, rest):
            heads, tails = _list_assertions(first), _list_assertions(rest)
            if heads is None or tails is None:
                return None
            return [head + tail for head in heads for tail in tails]
        case Alternation(options):
            found: list[list[LookAhead | LookBehind]] = []
            for option in options:
                inner = _list_assertions(option)
                if inner is None:
                    return None
                found += inner
            return found
        case _:
            return None


def _settle_between(
    around: _Around, assertions: Sequence[LookAhead | LookBehind]
) -> Expression | None:
    """Returns the texts around assertions, without those for which nothing further away matters;
    None: it matters for all of them."""
    before, after = around.before, around.after
    left: list[Expression] = []
    for assertion in assertions:
        match assertion:
            case LookAhead(rest) if is_plain(rest) and around.decides(rest):
                after = meet(after, rest)
            case LookBehind(so_far, reach) if is_plain(so_far) and around.reaches(reach):
                before = meet(before, so_far)
            case _:
                left.append(assertion)
    return concatenate(before, *left, after) if len(left) < len(assertions) else None


def meet(texts: Expression, condition: Expression) -> Expression:
    """Returns the intersection; in a simple form, if it is known that the condition holds for all
    of the texts, or for none."""
    both = intersect((texts, condition))
    if isinstance(both, RegexIntersection):
        if Automaton(both).is_empty(_MAX_EXPLORED):
            return EMPTY_SET
        if Automaton(intersect((texts, complement(condition)))).is_empty(_MAX_EXPLORED):
            return texts
    return both


def _resolve(expression: Expression, branches: _Branches) -> Expression:
    """Returns a plain expression for the texts from here to the end."""
    if is_plain(expression):
        return expression
    known = branches.resolved.get(expression)
    if known is None:
        match expression:
            case RegexComplement(body):
                known = complement(_resolve(body, branches))
            case RegexIntersection(parts):
                known = intersect([_resolve(part, branches) for part in parts])
            case _:
                known = _follow(EMPTY_STRING, expression, branches)
        branches.resolved[expression] = known
    return known


def _follow(prefix: Expression, expression: Expression, branches: _Branches) -> Expression:
    """Returns a plain expression for texts of the prefix, which is plain, and the expression."""
    branches.enter()
    while not is_plain(expression):
        first, rest = expression, EMPTY_STRING
        if isinstance(expression, Concatenation):
            first, rest = expression.first, expression.rest
        match first:
            case _ if is_plain(first):
                prefix, expression = concatenate(prefix, first), rest
            case LookBehind(before):
                prefix, expression = meet(prefix, _resolve(before, branches)), rest
                if prefix == EMPTY_SET:
                    return EMPTY_SET
            case Concatenation():
                expression = concatenate(first.first, first.rest, rest)
            case Alternation(options):
                ways = [_follow(prefix, concatenate(way, rest), branches) for way in options]
                return alternate(ways)
            case _:
                return _turn(prefix, concatenate(first, rest), branches)
    return concatenate(prefix, expression)


def _turn(prefix: Expression, expression: Expression, branches: _Branches) -> Expression:
    """Continues behind the prefix as if the text began here: with an expression whose first part is
    a look-ahead, or a repetition with assertions inside."""
    expression = map_look_behinds(expression, lambda before: _resolve(before, branches))
    ways: list[Expression] = []
    for texts, following in _divide(prefix, expression):
        branches.enter()
        match following:
            case Concatenation(LookAhead(condition), rest):
                parts = [_resolve(part, branches) for part in (condition, rest)]
                ways.append(concatenate(texts, intersect(parts)))
            case LookAhead(condition):
                parts = [_resolve(condition, branches), EMPTY_STRING]
                ways.append(concatenate(texts, intersect(parts)))
            case _:
                written = write_back(determinize(following, _MAX_STATES), _MAX_SIZE)
                ways.append(concatenate(texts, written))
    return alternate(ways)


def _divide(prefix: Expression, expression: Expression) -> Iterator[tuple[Expression, Expression]]:
    """Divides the texts of the prefix by what the look-behinds of the expression have seen after
    them; yields each part with the expression from there on."""
    behinds = _list_behinds(expression)
    if not behinds or prefix == EMPTY_STRING:
        yield prefix, expression
        return

    states, values = _explore_all(behinds)
    for number, seen in enumerate(values):
        ending = [*states]
        ending[number] = replace(states[number], accepts=True)
        texts = meet(prefix, write_back(minimize(ending), _MAX_SIZE))
        if texts != EMPTY_SET:
            now = dict(zip(behinds, seen, strict=True))
            yield texts, map_look_behinds(expression, now.__getitem__)


def _explore_all(
    start: tuple[Expression, ...],
) -> tuple[list[DeterministicState], list[tuple[Expression, ...]]]:
    """Builds an automaton for every text; its states are what these expressions have left."""

    def list_edges(
        state: tuple[Expression, ...],
    ) -> Iterator[tuple[Characters, tuple[Expression, ...]]]:
        firsts = frozenset[Characters]().union(*map(find_firsts, state))
        for cell in partition([*firsts, EVERY]):
            yield cell, tuple([derive(before, chr(cell.ranges[0][0])) for before in state])

    return explore(start, list_edges, lambda _: False, _MAX_BEHIND_STATES)


def _list_behinds(expression: Expression) -> tuple[Expression, ...]:
    """Returns the different texts so far that look-behinds ask for."""
    found = [part.before for part in list_parts(expression) if isinstance(part, LookBehind)]
    return tuple(dict.fromkeys(found))
