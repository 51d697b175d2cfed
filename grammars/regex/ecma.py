"""Regular expressions of JSON Schema for the mask: ECMA 262, unanchored, with the flag `u` if the
pattern is valid with it, else without (a lone bracket is itself then).

What is no regular language (back references) or would grow too large is left out, so that more
texts match, and is named.
"""

from dataclasses import dataclass

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.assertions import remove_assertions
from grammars.regex.deterministic import TooManyStatesError
from grammars.regex.ecma_parser import ParsedPattern, PatternError, parse_pattern
from grammars.regex.expressions import Expression
from grammars.regex.spelled import write_expression

_MAX_LENGTH = 10_000  # characters
_MAX_TRIED = 24  # assertions that are tried one by one, when all together are too many


@dataclass(frozen=True)
class PatternReading:
    """A pattern for the mask and for the validator.

    Args:
        regex: matches whole texts, in the syntax of `grammars.regex.reader`.
        engine: the pattern in the syntax of jsonschema-rs, unanchored.
        left_out: parts that `regex` leaves out, as they stand in the pattern.
        is_unicode: it was read with the flag `u`.
    """

    regex: str
    engine: str
    left_out: tuple[str, ...]
    is_unicode: bool


@keep_results("regexes", 4 * MIB)
def read_pattern(pattern: str) -> PatternReading | None:
    """Reads a pattern of JSON Schema.

    Returns:
        The reading; None if the pattern is invalid, or too large for a mask.
    """
    if len(pattern) > _MAX_LENGTH:
        return None
    try:
        source = parse_pattern(pattern, frozenset())
        expression, left_out = source.expression, source.left_out
        try:
            plain = remove_assertions(expression)
        except TooManyStatesError:
            plain, left_out = _leave_out_some(pattern, source)
        regex = write_expression(plain)
        return PatternReading(regex, source.engine, left_out, source.is_unicode)
    except (PatternError, RecursionError, TooManyStatesError):
        return None


def translate(pattern: str) -> str | None:
    """Returns an expression for the whole texts that match a pattern of JSON Schema, exactly.

    Returns:
        The expression, in the syntax of `grammars.regex.reader`; None: there is none.
    """
    reading = read_pattern(pattern)
    return None if reading is None or reading.left_out else reading.regex


def _leave_out_some(pattern: str, source: ParsedPattern) -> tuple[Expression, tuple[str, ...]]:
    """Returns an expression with as many assertions as are not too large, and those left out."""
    dropped = frozenset(range(source.assertions))
    whole = parse_pattern(pattern, dropped)
    plain = remove_assertions(whole.expression)
    for number in range(min(source.assertions, _MAX_TRIED)):
        tried = parse_pattern(pattern, dropped - {number})
        try:
            plain = remove_assertions(tried.expression)
        except TooManyStatesError:
            continue
        dropped, whole = dropped - {number}, tried
    return plain, whole.left_out
