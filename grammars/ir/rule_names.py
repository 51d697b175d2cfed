"""Finds which rules of the grammar read a text, piece by piece."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from grammars.ir.chart import START, Caller, Chart, ChartRow, Lexeme, UnknownEndError
from grammars.ir.grammar import Grammar
from grammars.ir.lexer import Lexer
from grammars.ir.nodes import RuleReference
from grammars.ir.printer import print_rule
from grammars.ir.word_choice import WordChoices
from grammars.steps import StepsError, limit_steps

MAX_NAMED = 4
"""The limit for readings of a piece; with more, rule names say little."""
STEPS, STEPS_PER_CHARACTER = 200_000, 200


class RuleNames(NamedTuple):
    """The rules that read the end of a piece of text. There may be several, one for each reading so
    far; there are none if they are not known.

    Args:
        rules: the rules.
        terminals: the terminals; literals and special tokens have no name.
    """

    rules: tuple[str, ...] = ()
    terminals: tuple[str, ...] = ()


UNKNOWN = RuleNames()


def name_rules(grammar: Grammar, given: str, pieces: Sequence[str]) -> list[RuleNames]:
    """Finds the rules of each piece of a text. They are not known after too many steps, or in a
    grammar that the user wrote.

    Args:
        grammar: the grammar of the text.
        given: the text before the pieces.
        pieces: consecutive pieces of the text.
    """
    found: list[RuleNames] = []
    max_steps = STEPS + STEPS_PER_CHARACTER * (len(given) + sum(map(len, pieces)))
    with suppress(StepsError, RecursionError, UnknownEndError), limit_steps(max_steps):
        for names in _read(grammar, given, pieces):
            found.append(names)
    return found + [UNKNOWN] * (len(pieces) - len(found))


def _read(grammar: Grammar, given: str, pieces: Sequence[str]) -> Iterator[RuleNames]:
    text = given + "".join(pieces)
    chart = _NamedChart(grammar, Lexer(grammar.rules), WordChoices(grammar.start, grammar.rules))
    halves = chart.find_halves(text)
    chart.grow(given if len(given) not in halves else given[: halves[len(given)]])
    end = len(given)
    waiting = 0  # pieces that end inside a special token
    for piece in pieces:
        end += len(piece)
        waiting += 1
        if end not in halves:
            chart.grow(text[:end])
            names = chart.name_end()
            yield from [names] * waiting
            waiting = 0


def print_named(grammar: Grammar, name: str) -> str:
    """Returns a rule or terminal as Lark."""
    body = grammar.start if name == START else grammar.rules[name].body
    return print_rule(name, body).rstrip("\n")


class _NamedChart(Chart):
    """A chart that knows the rules at the end of its text."""

    def __init__(self, grammar: Grammar, lexer: Lexer, choices: WordChoices):
        self._ended: dict[int, list[tuple[Lexeme, list[Caller]]]] = {}
        super().__init__(grammar, lexer, choices)

    def find_halves(self, text: str) -> dict[int, int]:
        """Returns the offsets inside special tokens, each with the offset where its token
        begins."""
        halves: dict[int, int] = {}
        for at, name in self._find_tokens(text).items():
            halves |= dict.fromkeys(range(at + 1, at + len(name)), at)
        return halves

    def grow(self, text: str) -> None:
        self._ended.clear()
        super().grow(text)

    def _leave_lexeme(self, row: ChartRow, lexeme: Lexeme, offset: int) -> None:
        self._ended.setdefault(offset, []).append((lexeme, row.waiting[lexeme]))
        super()._leave_lexeme(row, lexeme, offset)

    def name_end(self) -> RuleNames:
        """Returns the rules at the end of the text."""
        size = len(self.text)
        found: list[tuple[Lexeme, list[Caller]]] = []
        for row in self._open:
            if row.start < size:
                found += [(run.lexeme, row.waiting[run.lexeme]) for run in row.running]
        if not found and self._open:
            found = self._ended.get(size, [])
        rules: dict[str, None] = {}
        terminals: dict[str, None] = {}
        for lexeme, callers in found:
            rules |= dict.fromkeys(caller.rule for caller in callers)
            if isinstance(lexeme, RuleReference):
                terminals[lexeme.name] = None
        return RuleNames(tuple(rules)[:MAX_NAMED], tuple(terminals)[:MAX_NAMED])
