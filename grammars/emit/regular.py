"""Writes what a terminal matches as productions: directly from the regular expression, or by way of
an automaton for intersections, complements, and lazy matches."""

from collections.abc import Sequence

from grammars.emit.context_free import (
    CharacterSet,
    Nonterminal,
    Production,
    ProductionBuilder,
    Symbol,
)
from grammars.errors import CannotEmitError
from grammars.regex.characters import EVERY, Characters
from grammars.regex.deterministic import (
    DeterministicState,
    Edge,
    TooManyStatesError,
    determinize,
    intersect_automata,
    stop_at_first,
)
from grammars.regex.expressions import (
    ANYTHING,
    EMPTY_STRING,
    Alternation,
    CharacterClass,
    Concatenation,
    EmptySet,
    EmptyString,
    Expression,
    LookAhead,
    LookBehind,
    RegexComplement,
    RegexIntersection,
    Repeat,
    alternate,
    concatenate,
    intersect,
    is_nullable,
)
from grammars.turn_grammar.ir.nodes import Literal

MAX_STATES = 3_000
"""The maximum number of states of the automaton of one terminal."""
MAX_COUNTED = 25_000
"""The same if its length is bounded: there is a state for each length and place in an excluded
text."""


class RegularProductions:
    """Adds the productions of regular expressions to a grammar.

    Args:
        builder: the grammar that is being built.
    """

    def __init__(self, builder: ProductionBuilder):
        self._builder = builder
        self._known: dict[Expression, tuple[Production, ...]] = {}
        self._known_lazy: dict[Expression, tuple[Production, ...]] = {}

    def options(self, regex: Expression, *, lazy: bool = False) -> tuple[Production, ...]:
        """Returns the productions of a lexeme, which is never empty; () if nothing matches.

        Args:
            lazy: it ends at the first match.

        Raises:
            CannotEmitError: its automaton is too large.
        """
        some = _leave_out_empty(regex)
        if not lazy:
            return self._options(some)
        if some not in self._known_lazy:
            self._known_lazy[some] = self._by_automaton(some, lazy=True)
        return self._known_lazy[some]

    def _options(self, regex: Expression) -> tuple[Production, ...]:
        if regex not in self._known:
            self._known[regex] = self._write(regex)
        return self._known[regex]

    def _write(self, regex: Expression) -> tuple[Production, ...]:
        match regex:
            case EmptySet():
                return ()
            case EmptyString():
                return ((),)
            case CharacterClass(characters):
                return ((_write_set(characters),),) if characters.ranges else ()
            case Concatenation():
                return self._write_concatenation(regex)
            case Alternation(options):
                written: list[Production] = []
                for option in sorted(options, key=repr):  # sets have no order
                    written += self._options(option)
                return tuple(dict.fromkeys(written))
            case Repeat(body, fewest, most):
                some = self._options(_leave_out_empty(body))
                if not some:
                    return () if fewest else ((),)
                symbol = self._builder.symbol(some, "repeated")
                return (self._builder.repeat(symbol, fewest, most, "repeat"),)
            case RegexIntersection() | RegexComplement():
                return self._by_automaton(regex, lazy=False)
            case LookAhead() | LookBehind():
                raise AssertionError("terminals have no assertions")

    def _write_concatenation(self, regex: Expression) -> tuple[Production, ...]:
        whole: Production = ()
        while regex != EMPTY_STRING:
            if isinstance(regex, Concatenation):
                first, regex = regex.first, regex.rest
            else:
                first, regex = regex, EMPTY_STRING
            options = self._options(first)
            if not options:
                return ()
            whole = join(whole, self._builder.define(options, "part"))
        return (whole,)

    def _by_automaton(self, regex: Expression, *, lazy: bool) -> tuple[Production, ...]:
        try:
            states = _make_automaton(regex, lazy=lazy)
        except TooManyStatesError as error:
            raise CannotEmitError(
                f"the automaton of this terminal has {error}",
                where=self._builder.origin,
                hint="Shorten the pattern, or remove its maxLength",
            ) from error
        return self.write_states(states)

    def write_states(self, states: Sequence[DeterministicState]) -> tuple[Production, ...]:
        """Returns the productions of an automaton: one nonterminal for each state, except those
        that only lead to one other state; () if it has no states."""
        if not states:
            return ()
        symbols: dict[int, Nonterminal] = {}
        queue = [0]

        def write(edge: Edge) -> Production:
            production: Production = (_write_set(edge.characters),)
            target = states[edge.target]
            while len(target.edges) == 1 and not target.accepts:
                edge = target.edges[0]
                production = join(production, (_write_set(edge.characters),))
                target = states[edge.target]
            if not target.edges:
                return production
            if edge.target not in symbols:
                symbols[edge.target] = self._builder.reserve("state")
                queue.append(edge.target)
            return (*production, symbols[edge.target])

        start: tuple[Production, ...] = ()
        for at, number in enumerate(queue):  # the loop appends to it
            state = states[number]
            options = [write(edge) for edge in state.edges]
            if state.accepts:
                options.append(())
            if at:
                self._builder.fill(symbols[number], options)
            else:
                start = tuple(options)
        return start


def join(before: Production, after: Production) -> Production:
    """Concatenates two productions, and joins the texts that meet."""
    match before, after:
        case (*most, Literal(first)), (Literal(second), *rest):
            return (*most, Literal(first + second), *rest)
        case _:
            return before + after


def _write_set(characters: Characters) -> Symbol:
    match characters.ranges:
        case ((first, last),) if first == last:
            return Literal(chr(first))
        case _:
            return CharacterSet(characters)


def _leave_out_empty(regex: Expression) -> Expression:
    """Returns the expression without the empty text."""
    if not is_nullable(regex):
        return regex
    match regex:
        case Repeat(body, 0, most) if not is_nullable(body):
            return Repeat(body, 1, most)
        case Alternation(options):
            return alternate(map(_leave_out_empty, options))
        case _:
            return intersect((regex, Repeat(CharacterClass(EVERY), 1)))


def _make_automaton(regex: Expression, *, lazy: bool) -> list[DeterministicState]:
    """Builds the automaton of an expression. Bounds of its length become a second automaton, which
    is intersected with it: derivatives would differ for each length.

    Raises:
        TooManyStatesError: it is too large.
    """
    rest, fewest, most = _take_length(regex)
    if fewest == 0 and most is None:
        return determinize(regex, MAX_STATES, lazy=lazy)
    lengths = determinize(Repeat(CharacterClass(EVERY), fewest, most), MAX_COUNTED)
    states = intersect_automata(determinize(rest, MAX_STATES), lengths, MAX_COUNTED)
    return stop_at_first(states) if lazy else states


def _take_length(regex: Expression) -> tuple[Expression, int, int | None]:
    """Splits an expression into one without bounds of its length, and the bounds: minimum and
    maximum (None: no maximum)."""
    match regex:
        case RegexIntersection(parts):
            fewest, most = 0, None
            others: list[Expression] = []
            for part in parts:
                if isinstance(part, Repeat) and part.body == CharacterClass(EVERY):
                    fewest = max(fewest, part.fewest)
                    most = min((n for n in (most, part.most) if n is not None), default=None)
                else:
                    others.append(part)
            return intersect(others), fewest, most
        case Repeat(CharacterClass(characters), fewest, most) if characters == EVERY:
            return ANYTHING, fewest, most
        case Concatenation(first, rest) if (size := _find_size(rest)) is not None:
            inner, fewest, most = _take_length(first)
            if fewest == 0 and most is None:
                return regex, 0, None
            return concatenate(inner, rest), fewest + size, None if most is None else most + size
        case _:
            return regex, 0, None


def _find_size(regex: Expression) -> int | None:
    """Returns the length of every matching text; None: it varies."""
    size = 0
    while isinstance(regex, Concatenation) and isinstance(regex.first, CharacterClass):
        size, regex = size + 1, regex.rest
    match regex:
        case EmptyString():
            return size
        case CharacterClass():
            return size + 1
        case _:
            return None
