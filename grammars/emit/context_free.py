"""Context-free grammars over characters and special tokens: no lexer, no parameters, no counts.

For engines without a lexer. A terminal is one character of a set, a text, or a special token;
everything else is a nonterminal with its productions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grammars.errors import CannotEmitError
from grammars.regex.characters import Characters
from grammars.turn_grammar.ir.nodes import Literal, Token

MAX_PRODUCTIONS = 50_000
"""The maximum size of a grammar; llama.cpp reads it in 0.1 seconds."""
MAX_SPELLED = 12
"""Repetitions up to this count are written out; longer ones are built from halves."""


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """One character of a set."""

    characters: Characters


@dataclass(frozen=True, slots=True)
class Nonterminal:
    """A text that one of its productions derives."""

    name: str


Symbol: TypeAlias = Literal | Token | CharacterSet | Nonterminal
Production: TypeAlias = tuple[Symbol, ...]


@dataclass(frozen=True)
class ContextFreeGrammar:
    """The grammar of one assistant turn.

    Args:
        start: the productions of the start symbol.
        rules: the productions of all nonterminals, by name; each can be reached from the start and
            derives some text.
        origins: the rules of the turn's own grammar that they come from, by name.
    """

    start: tuple[Production, ...]
    rules: Mapping[str, tuple[Production, ...]]
    origins: Mapping[str, str]

    def cut(self, start: Sequence[Production]) -> "ContextFreeGrammar":
        """Returns the part of the grammar that another start reaches."""
        reached = find_reached(start, self.rules)
        rules = {name: options for name, options in self.rules.items() if name in reached}
        return ContextFreeGrammar(tuple(start), rules, self.origins)


class ProductionBuilder:
    """Builds a grammar; nonterminals with equal productions are shared."""

    def __init__(self) -> None:
        self.origin = ""  # the rule whose productions are being built
        self._rules: dict[str, tuple[Production, ...]] = {}
        self._names: dict[tuple[Production, ...], Nonterminal] = {}
        self._repeats: dict[tuple[Symbol, int, int | None], Production] = {}
        self._origins: dict[str, str] = {}
        self._loops: list[tuple[Nonterminal, Symbol]] = []
        self._size = 0

    def define(self, options: Sequence[Production], hint: str) -> Production:
        """Returns the union of the options as one production; a single option is returned as it
        is."""
        unique = tuple(dict.fromkeys(options))
        if len(unique) == 1:
            return unique[0]
        return (self._find(unique, hint),)

    def symbol(self, options: Sequence[Production], hint: str) -> Symbol:
        """Returns the union of the options as one symbol."""
        unique = tuple(dict.fromkeys(options))
        if len(unique) == 1 and len(unique[0]) == 1:
            return unique[0][0]
        return self._find(unique, hint)

    def _find(self, options: tuple[Production, ...], hint: str) -> Nonterminal:
        known = self._names.get(options)
        if known is None:
            known = self._names[options] = self.reserve(hint)
            self.fill(known, options)
        return known

    def reserve(self, hint: str, origin: str | None = None) -> Nonterminal:
        """Returns a nonterminal that can be used before `fill` gives it its productions.

        Args:
            hint: the beginning of its name.
            origin: the rule that it comes from; None: the current one.
        """
        name = f"{hint.replace('_', '-').lower()}-{len(self._rules)}"
        self._rules[name] = ()
        self._origins[name] = self.origin if origin is None else origin
        return Nonterminal(name)

    def fill(self, nonterminal: Nonterminal, options: Sequence[Production]) -> None:
        """Gives a reserved nonterminal its productions.

        Raises:
            CannotEmitError: the grammar becomes too large.
        """
        self._size += max(1, len(options))
        if self._size > MAX_PRODUCTIONS:
            raise CannotEmitError(
                f"without counts and conditions the grammar has more than {MAX_PRODUCTIONS:,} "
                "productions",
                where=self.origin,
                hint="Ask for keys in the order of the schema (`--key-order schema`), offer fewer "
                "tools, or simplify their schemas",
            )
        # A production of just the nonterminal itself derives nothing new.
        itself = (nonterminal,)
        self._rules[nonterminal.name] = tuple(
            [option for option in dict.fromkeys(options) if option != itself]
        )

    def repeat(self, body: Symbol, fewest: int, most: int | None, hint: str) -> Production:
        """Repeats the body `fewest` to `most` times (None: no maximum). Long counts are built from
        halves of halves, which needs few rules."""
        key = body, fewest, most
        if key not in self._repeats:
            exact = self._repeat_exactly(body, fewest, hint)
            if most is None:
                rest = self._repeat_forever(body, hint)
            else:
                rest = self._repeat_up_to(body, most - fewest, hint)
            self._repeats[key] = exact + rest
        return self._repeats[key]

    def _repeat_exactly(self, body: Symbol, count: int, hint: str) -> Production:
        if count <= MAX_SPELLED:
            return (body,) * count
        half = self.repeat(body, count // 2, count // 2, hint)
        odd = (body,) * (count % 2)
        return (self._find((half,), hint),) * 2 + odd

    def _repeat_forever(self, body: Symbol, hint: str) -> Production:
        again = self.reserve(hint)
        self._loops.append((again, body))
        self.fill(again, [(body, again), ()])
        return (again,)

    def _repeat_up_to(self, body: Symbol, count: int, hint: str) -> Production:
        """Repeats the body 0 to `count` times: `count // 2` times at most, or once and then the
        others."""
        if count == 0:
            return ()
        if count <= MAX_SPELLED:
            rest = self.repeat(body, 0, count - 1, hint)
            return (self._find(((body, *rest), ()), hint),)
        low = count // 2
        more = self.repeat(body, low + 1, low + 1, hint) + self.repeat(
            body, 0, count - low - 1, hint
        )
        return (self._find((more, self.repeat(body, 0, low, hint)), hint),)

    def build(self, start: Sequence[Production]) -> ContextFreeGrammar:
        """Returns the whole grammar, without nonterminals that cannot be reached or derive no text.

        Raises:
            CannotEmitError: the grammar derives no text.
        """
        self._advance_loops()
        productive = _find_fulfilled(self._rules, lambda symbol: True)
        rules = {name: _keep(self._rules[name], productive) for name in productive}
        kept = _keep(start, productive)
        if not kept:
            raise CannotEmitError("no turn can be written", where="start")
        # The order of the rules is that in which they were begun.
        in_order = {name: rules[name] for name in self._rules if name in productive}
        return ContextFreeGrammar(kept, in_order, self._origins).cut(kept)

    def _advance_loops(self) -> None:
        """Makes every round of an unbounded repetition write something: an empty round would be
        left recursion."""
        nullable = find_nullable(self._rules)
        nonempty: dict[str, Nonterminal] = {}
        for again, body in self._loops:
            if isinstance(body, Nonterminal) and body.name in nullable:
                some = self._find_nonempty(body, nullable, nonempty)
                self._rules[again.name] = ((some, again), ())

    def _find_nonempty(
        self, body: Nonterminal, nullable: set[str], known: dict[str, Nonterminal]
    ) -> Nonterminal:
        """Returns a nonterminal for the same texts without the empty one."""
        if body.name in known:
            return known[body.name]
        known[body.name] = some = self.reserve("some")
        options: list[Production] = []
        for production in self._rules[body.name]:
            for i, symbol in enumerate(production):
                if not isinstance(symbol, Nonterminal) or symbol.name not in nullable:
                    options.append(production[i:])
                    break
                first = self._find_nonempty(symbol, nullable, known)
                options.append((first, *production[i + 1 :]))
        self.fill(some, options)
        return some


def _keep(options: Iterable[Production], productive: set[str]) -> tuple[Production, ...]:
    """Keeps the productions that derive some text."""
    kept: dict[Production, None] = {}
    for production in options:
        if all(name in productive for name in list_names(production)):
            kept[production] = None
    return tuple(kept)


def list_names(production: Production) -> Iterator[str]:
    """Yields the nonterminals of a production."""
    for symbol in production:
        if isinstance(symbol, Nonterminal):
            yield symbol.name


def find_nullable(rules: Mapping[str, Sequence[Production]]) -> set[str]:
    """Returns the nonterminals that derive the empty text."""
    return _find_fulfilled(rules, lambda symbol: False)


def _find_fulfilled(
    rules: Mapping[str, Sequence[Production]], holds: Callable[[Symbol], bool]
) -> set[str]:
    """Finds the nonterminals with a production all of whose symbols are such nonterminals, or
    terminals that satisfy a condition."""
    missing: list[int] = []  # by production, the number of nonterminals not known to be fulfilled
    waiting: dict[str, list[tuple[str, int]]] = {}
    fulfilled = set[str]()
    queue: list[str] = []
    for name, options in rules.items():
        for production in options:
            names = list(list_names(production))
            terminals = [s for s in production if not isinstance(s, Nonterminal)]
            if not all(map(holds, terminals)):
                continue
            for needed in names:
                waiting.setdefault(needed, []).append((name, len(missing)))
            missing.append(len(names))
            if not names:
                queue.append(name)
    while queue:
        found = queue.pop()
        if found in fulfilled:
            continue
        fulfilled.add(found)
        for name, production in waiting.get(found, ()):
            missing[production] -= 1
            if not missing[production]:
                queue.append(name)
    return fulfilled


def find_left_recursion(rules: Mapping[str, Sequence[Production]]) -> str | None:
    """Finds a nonterminal that derives itself followed by anything; None: there is none."""
    nullable = find_nullable(rules)
    corners = {name: _list_corners(options, nullable) for name, options in rules.items()}
    is_over: dict[str, bool] = {}
    for name in rules:
        stack = [(name, iter(corners[name]))] if name not in is_over else []
        is_over.setdefault(name, False)
        while stack:
            top, rest = stack[-1]
            corner = next(rest, None)
            if corner is None:
                is_over[top] = True
                stack.pop()
            elif corner not in is_over:
                is_over[corner] = False
                stack.append((corner, iter(corners[corner])))
            elif not is_over[corner]:
                return corner
    return None


def _list_corners(options: Iterable[Production], nullable: set[str]) -> list[str]:
    """Returns the nonterminals that productions can begin with."""
    corners: list[str] = []
    for production in options:
        for symbol in production:
            if not isinstance(symbol, Nonterminal):
                break
            corners.append(symbol.name)
            if symbol.name not in nullable:
                break
    return corners


def find_reached(
    start: Iterable[Production], rules: Mapping[str, Sequence[Production]]
) -> set[str]:
    """Returns the nonterminals that these productions reach."""
    reached = set[str]()
    queue = [name for production in start for name in list_names(production)]
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            for production in rules[name]:
                queue += list_names(production)
    return reached
