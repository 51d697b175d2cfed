"""Writes context-free grammars as text, in the notation that GBNF and XGrammar's EBNF share.

In one of them `\\x` takes two digits, in the other one any number, so characters are written with
`\\u` and `\\U`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from grammars.emit.context_free import (
    CharacterSet,
    ContextFreeGrammar,
    Nonterminal,
    Production,
    Symbol,
)
from grammars.errors import CannotEmitError
from grammars.regex.characters import Characters
from grammars.turn_grammar.ir.nodes import Literal, Token

_LETTERS = {"\n": r"\n", "\t": r"\t", "\r": r"\r", '"': r"\"", "\\": r"\\"}
_CLASS_LETTERS = frozenset("^-]\\[")


@dataclass(frozen=True)
class Notation:
    """The differences between the dialects.

    Args:
        name: of the dialect.
        write_token: writes a special token.
        characters: those that the engine supports.
    """

    name: str
    write_token: Callable[[Token], str]
    characters: Characters


def write_rules(grammar: ContextFreeGrammar, notation: Notation) -> str:
    """Writes the rules; the first one is `root`.

    Raises:
        CannotEmitError: a text has a character that the engine does not support.
    """
    lines = [_write_rule("root", grammar.start, notation)]
    for name, options in grammar.rules.items():
        try:
            lines.append(_write_rule(name, options, notation))
        except CannotEmitError as error:
            error.where = grammar.origins[name]
            raise
    return "\n".join(lines) + "\n"


def _write_rule(name: str, options: Iterable[Production], notation: Notation) -> str:
    written: list[str] = []
    for production in options:
        symbols = [_write_symbol(symbol, notation) for symbol in production]
        written.append(" ".join(symbols) or '""')
    return f"{name} ::= {' | '.join(written)}"


def _write_symbol(symbol: Symbol, notation: Notation) -> str:
    match symbol:
        case Literal(text):
            return _write_text(text, notation)
        case CharacterSet(characters):
            return _write_set(characters, notation.characters)
        case Token():
            return notation.write_token(symbol)
        case Nonterminal(name):
            return name


def _write_text(text: str, notation: Notation) -> str:
    """Writes a text between quotes.

    Raises:
        CannotEmitError: it has a character that the engine does not support.
    """
    written: list[str] = []
    for character in text:
        if character not in notation.characters:
            raise CannotEmitError(
                f"{notation.name} cannot express the character U+{ord(character):04X}",
                where="start",
                hint="Remove it from the enum, const, pattern or name that has it",
            )
        if character in _LETTERS:
            written.append(_LETTERS[character])
        elif character.isprintable():
            written.append(character)
        else:
            written.append(_write_code(ord(character)))
    return f'"{"".join(written)}"'


@lru_cache(maxsize=1_000)
def _write_set(characters: Characters, known: Characters) -> str:
    ranges = characters.intersect(known).ranges
    assert ranges, "brackets with nothing between them would match the empty text"
    return f"[{''.join([_write_range(*ends) for ends in ranges])}]"


def _write_range(first: int, last: int) -> str:
    """Writes a range of characters, for use inside brackets."""
    if first == last:
        return _write_end(first)
    return f"{_write_end(first)}-{_write_end(last)}"


def _write_end(code: int) -> str:
    character = chr(code)
    if character.isascii() and character.isprintable() and character not in _CLASS_LETTERS:
        return character
    return _write_code(code)


def _write_code(code: int) -> str:
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
