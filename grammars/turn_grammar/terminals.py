"""Writes regular expressions as parts of terminals."""

from collections.abc import Callable

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.characters import Characters
from grammars.regex.expressions import (
    ANYTHING,
    EMPTY_STRING,
    Alternation,
    Concatenation,
    Expression,
    RegexComplement,
    RegexIntersection,
    Repeat,
)
from grammars.regex.reader import read
from grammars.regex.spelled import (
    choose_spelling,
    has_algebra,
    is_simple,
    spell_expression,
    write_expression,
    write_set,
)
from grammars.regex.writing import escape_slashes
from grammars.turn_grammar.ir import nodes as ir


def match_regex(regex: str) -> ir.Expression:
    """Returns the texts of an expression (in the syntax of `grammars.regex.reader`), as part of a
    terminal. Intersections and complements become operators, since llguidance does not know them
    inside of `/.../`."""
    if not has_algebra(regex):
        return ir.Pattern(escape_slashes(regex))
    return _TerminalWriter(write_set, ir.ANY_TEXT).write(read(regex))


@keep_results("regexes", 4 * MIB)
def match_json_strings(pattern: str) -> ir.Expression:
    """Returns the JSON strings, quotes included, whose characters match, as part of a terminal. If
    the pattern has many sets of characters, those beyond ASCII are not escaped. Raises
    UnreadableError."""
    expression = read(pattern)
    spell_one = choose_spelling(expression)
    if is_simple(expression):
        return ir.Pattern(escape_slashes(f'"({spell_expression(expression, spell_one)})"'))
    any_text = ir.Pattern(escape_slashes(spell_expression(ANYTHING, spell_one)))
    quote = ir.Pattern('"')
    return ir.sequence(quote, _TerminalWriter(spell_one, any_text).write(expression), quote)


class _TerminalWriter:
    """Writes expressions over spellings, as parts of a terminal. What is simple is spelled when it
    is written: to spell all of it first and read that back took most of the time of a schema."""

    def __init__(self, spell_one: Callable[[Characters], str], any_text: ir.Expression):
        self._spell_one = spell_one
        self._any_text = any_text

    def write(self, regex: Expression) -> ir.Expression:
        if regex == ANYTHING:
            return self._any_text
        if regex == EMPTY_STRING:
            return ir.EMPTY  # `//` would be a comment
        if is_simple(regex):
            return ir.Pattern(escape_slashes(spell_expression(regex, self._spell_one)))
        match regex:
            case Concatenation(first, rest):
                return ir.sequence(self.write(first), self.write(rest))
            case Alternation(options):
                return ir.choice(map(self.write, sorted(options, key=write_expression)))
            case Repeat(body, fewest, most):
                return ir.Repeat(self.write(body), fewest, most)
            case RegexIntersection(parts):
                ordered = sorted(parts, key=write_expression)
                texts = [
                    self.write(part) for part in ordered if not isinstance(part, RegexComplement)
                ]
                excluded = [
                    self._exclude(part) for part in ordered if isinstance(part, RegexComplement)
                ]
                return ir.intersection(*(texts or [self._any_text]), *excluded)
            case RegexComplement():
                return ir.intersection(self._any_text, self._exclude(regex))
            case _:
                raise AssertionError(f"{regex} is not simple")

    def _exclude(self, regex: RegexComplement) -> ir.Complement:
        return ir.Complement(self._write_open(regex.body))

    def _write_open(self, regex: Expression) -> ir.Expression:
        """Writes texts that are excluded. Where any text may follow, any bytes may: see
        `exclude_beginning`."""
        match regex:
            case _ if regex == ANYTHING:
                return ir.EVERYTHING
            case Concatenation(first, rest):
                return ir.sequence(self.write(first), self._write_open(rest))
            case Alternation(options):
                return ir.choice(map(self._write_open, sorted(options, key=write_expression)))
            case _:
                return self.write(regex)
