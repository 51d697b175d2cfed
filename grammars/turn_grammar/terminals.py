"""Writes regular expressions as parts of terminals."""

from grammars.regex.expressions import (
    ANYTHING,
    EMPTY_STRING,
    Alternation,
    Concatenation,
    RegexComplement,
    RegexIntersection,
)
from grammars.regex.expressions import Expression as Regex
from grammars.regex.expressions import Repeat as RegexRepeat
from grammars.regex.reader import read
from grammars.regex.spelled import has_algebra, is_simple, write_expression
from grammars.regex.writing import escape_slashes
from grammars.turn_grammar.ir.nodes import (
    ANY_TEXT,
    EMPTY,
    EVERYTHING,
    Complement,
    Expression,
    Pattern,
    Repeat,
    choice,
    intersection,
    sequence,
)


def match_regex(regex: str) -> Expression:
    """Returns the texts of an expression (in the syntax of `grammars.regex.reader`), as part of a
    terminal. Intersections and complements become operators, since llguidance does not know them
    inside of `/.../`."""
    if not has_algebra(regex):
        return Pattern(escape_slashes(regex))
    return _write(read(regex))


def _write(regex: Regex) -> Expression:
    if regex == ANYTHING:
        return ANY_TEXT
    if regex == EMPTY_STRING:
        return EMPTY  # `//` would be a comment
    if is_simple(regex):
        return Pattern(escape_slashes(write_expression(regex)))
    match regex:
        case Concatenation(first, rest):
            return sequence(_write(first), _write(rest))
        case Alternation(options):
            return choice(map(_write, sorted(options, key=write_expression)))
        case RegexRepeat(body, fewest, most):
            return Repeat(_write(body), fewest, most)
        case RegexIntersection(parts):
            ordered = sorted(parts, key=write_expression)
            texts = [_write(part) for part in ordered if not isinstance(part, RegexComplement)]
            excluded = [_exclude(part) for part in ordered if isinstance(part, RegexComplement)]
            return intersection(*(texts or [ANY_TEXT]), *excluded)
        case RegexComplement():
            return intersection(ANY_TEXT, _exclude(regex))
        case _:
            raise AssertionError(f"{regex} is not simple")


def _exclude(regex: RegexComplement) -> Complement:
    return Complement(_write_open(regex.body))


def _write_open(regex: Regex) -> Expression:
    """Writes texts that are excluded. Where any text may follow, any bytes may: see
    `exclude_beginning`."""
    match regex:
        case _ if regex == ANYTHING:
            return EVERYTHING
        case Concatenation(first, rest):
            return sequence(_write(first), _write_open(rest))
        case Alternation(options):
            return choice(map(_write_open, sorted(options, key=write_expression)))
        case _:
            return _write(regex)
