"""Lexemes as machines that read them character by character, like llguidance's lexer."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.automaton import Automaton, AutomatonState
from grammars.regex.characters import Characters
from grammars.regex.expressions import (
    CharacterClass,
    Expression,
    alternate,
    complement,
    concatenate,
    intersect,
    repeat,
)
from grammars.regex.reader import UnreadableError, read
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.grammar import Rule

Position: TypeAlias = int | str | AutomatonState
"""The state of a machine; each kind of machine has its own."""


class Machine(ABC):
    """Reads one lexeme."""

    lazy = False
    """True if the lexeme ends at its first match."""
    start: Position = 0
    """The state before the lexeme."""

    @abstractmethod
    def step(self, at: Position, character: str) -> Position | None:
        """Returns the state after one more character; None if it does not fit."""

    def skip(self, at: Position, text: str, offset: int, stop: int) -> tuple[Position, int]:
        """Skips characters of `text[offset:stop]` after which the lexeme certainly continues;
        returns the new state and offset. In short lexemes, nothing is skipped."""
        return at, offset

    @abstractmethod
    def accepts(self, at: Position) -> bool:
        """Returns whether the lexeme may end there."""

    @abstractmethod
    def end(self, at: Position) -> str | None:
        """Returns the shortest rest of the lexeme; None: not known."""

    def measure(self, at: Position) -> int:
        """Returns a lower bound for the characters of the rest."""
        return 0


@dataclass(frozen=True)
class LiteralMachine(Machine):
    """Reads fixed text; the state is the number of characters read."""

    text: str

    def step(self, at: Position, character: str) -> Position | None:
        assert isinstance(at, int)
        return at + 1 if self.text[at : at + 1] == character else None

    def accepts(self, at: Position) -> bool:
        return at == len(self.text)

    def end(self, at: Position) -> str | None:
        assert isinstance(at, int)
        return self.text[at:]


@dataclass(frozen=True)
class TokenMachine(Machine):
    """Reads a special token, which contains no characters of a text."""

    token: ir.Token

    def step(self, at: Position, character: str) -> Position | None:
        return None

    def accepts(self, at: Position) -> bool:
        return False

    def end(self, at: Position) -> str | None:
        return self.token.name


class RegexMachine(Machine):
    """Reads text that matches a regular expression."""

    def __init__(self, automaton: Automaton, lazy: bool):
        self.automaton = automaton
        self.start = automaton.start
        self.lazy = lazy

    def step(self, at: Position, character: str) -> Position | None:
        assert isinstance(at, AutomatonState)
        following = at.next.get(character) or self.automaton.step(at, character)
        return None if following.is_dead else following

    def skip(self, at: Position, text: str, offset: int, stop: int) -> tuple[Position, int]:
        assert isinstance(at, AutomatonState)
        automaton, lazy = self.automaton, self.lazy
        while offset < stop:
            following = at.next.get(text[offset]) or automaton.step(at, text[offset])
            if following.is_dead or (lazy and following.accepts):
                break
            at = following
            offset += 1
        return at, offset

    def accepts(self, at: Position) -> bool:
        assert isinstance(at, AutomatonState)
        return at.accepts

    def end(self, at: Position) -> str | None:
        assert isinstance(at, AutomatonState)
        return self.automaton.end(at)

    def measure(self, at: Position) -> int:
        assert isinstance(at, AutomatonState)
        return at.least


@dataclass(frozen=True)
class LanguageMachine(Machine):
    """Reads text of a `Language`; the state is the text so far."""

    language: ir.Language
    start = ""

    def step(self, at: Position, character: str) -> Position | None:
        text = f"{at}{character}"
        return text if self.language.begins(text) else None

    def accepts(self, at: Position) -> bool:
        assert isinstance(at, str)
        return self.language.accepts(at)

    def end(self, at: Position) -> str | None:
        assert isinstance(at, str)
        return self.language.extend(at)


class UnknownMachine(Machine):
    """Reads a lexeme that cannot be analysed: it accepts any text and has no known end."""

    def step(self, at: Position, character: str) -> Position | None:
        return 1

    def accepts(self, at: Position) -> bool:
        return at == 1

    def end(self, at: Position) -> str | None:
        return None


class Lexer:
    """The machines for the lexemes of one grammar."""

    def __init__(self, rules: Mapping[str, Rule]):
        self._rules = rules
        self._machines: dict[ir.Expression, Machine] = {}

    def measure(self) -> int:
        """Returns the bytes of the automata, which grow with the texts that they read."""
        machines = list(self._machines.values())  # a copy, since another thread may add one
        regular = [machine for machine in machines if isinstance(machine, RegexMachine)]
        return sum(machine.automaton.measure() for machine in regular)

    def machine(self, lexeme: ir.Expression) -> Machine:
        if lexeme not in self._machines:
            self._machines[lexeme] = self._make(lexeme)
        return self._machines[lexeme]

    def _make(self, lexeme: ir.Expression) -> Machine:
        match lexeme:
            case ir.Literal(text):
                return LiteralMachine(text)
            case ir.Token():
                return TokenMachine(lexeme)
            case ir.JsonSchema(_, language) if language is not None:
                return LanguageMachine(language)
            case ir.RuleReference(name):
                rule = self._rules[name]
                with suppress(UnreadableError, RecursionError):
                    return RegexMachine(_compile(_read_terminal(rule.body, self._rules)), rule.lazy)
            case _:
                pass
        return UnknownMachine()


def _read_terminal(body: ir.Expression, rules: Mapping[str, Rule]) -> Expression:
    """Converts the body of a terminal; UnreadableError: the parser does not know its syntax."""

    def read_all(parts: Iterable[ir.Expression]) -> list[Expression]:
        return [_read_terminal(part, rules) for part in parts]

    match body:
        case ir.Literal(text):
            return concatenate(*[CharacterClass(Characters.of(character)) for character in text])
        case ir.Pattern(regex):
            return _read_pattern(regex)
        case ir.Sequence(parts):
            return concatenate(*read_all(parts))
        case ir.Alternatives(options):
            return alternate(read_all(options))
        case ir.Intersection(parts):
            return intersect(read_all(parts))
        case ir.Complement(of):
            return complement(_read_terminal(of, rules))
        case ir.Repeat(inner, fewest, most):
            return repeat(_read_terminal(inner, rules), fewest, most)
        case ir.RuleReference(name):
            return _read_terminal(rules[name].body, rules)
        case _:
            raise UnreadableError(f"{body} in a terminal")


@keep_results("regexes", 8 * MIB)
def _read_pattern(regex: str) -> Expression:
    # Requests repeat their expressions, and parsing one costs more than a look-up.
    return read(regex)


# Each automaton keeps thousands of states. Grammars share those of strings and numbers.
@keep_results("automata", 32 * MIB, Automaton.measure)
def _compile(regex: Expression) -> Automaton:
    return Automaton(regex)
