"""Regular expressions of JSON Schema for the mask: ECMA 262, unanchored, with the flag `u` if the
pattern is valid with it, else without (a lone bracket is itself then).

What is no regular language (back references) or would grow too large is left out, so that more
texts match, and is named.
"""

from contextlib import suppress
from dataclasses import dataclass

from grammars.limits.byte_cache import MIB, keep_results
from grammars.limits.steps import StepsError, limit_steps
from grammars.regex.assertions import remove_assertions
from grammars.regex.deterministic import TooManyStatesError
from grammars.regex.ecma_parser import MAX_ASSERTIONS, ParsedPattern, parse_pattern
from grammars.regex.expressions import Expression, keep_derivatives
from grammars.regex.reader import PatternError
from grammars.regex.spelled import write_expression

_MAX_LENGTH = 10_000  # characters
_MAX_STEPS = 20_000  # of 7 us, for one pattern
_MAX_TRIED = 20  # assertions that are tried one by one, when all together are too many
_ALL = frozenset(range(MAX_ASSERTIONS))


@dataclass(frozen=True)
class PatternReading:
    """A pattern for the mask and for the validator."""

    regex: str  # for whole texts, in the syntax of `grammars.regex.reader`
    engine: str  # in the syntax of jsonschema-rs, unanchored
    left_out: tuple[str, ...]  # parts that `regex` leaves out, as they stand in the pattern
    is_unicode: bool  # it was read with the flag `u`


@keep_results("regexes", 4 * MIB)
def read_pattern(pattern: str) -> PatternReading | None:
    """Reads a pattern of JSON Schema; None if it is invalid, or too large for a mask."""
    if len(pattern) > _MAX_LENGTH:
        return None
    try:
        read = _try_without(pattern, frozenset(), _MAX_STEPS) or _leave_out_some(pattern)
        source, plain = read
        regex = write_expression(plain)
        return PatternReading(regex, source.engine, source.left_out, source.is_unicode)
    except (PatternError, RecursionError):
        return None


def find_fault(pattern: str) -> tuple[str, int] | None:
    """Returns what is wrong with a pattern, and the index of its character; None: it is valid."""
    try:
        parse_pattern(pattern, _ALL)
    except PatternError as error:
        return error.reason, error.at
    except RecursionError:
        pass
    return None


def translate(pattern: str) -> str | None:
    """Returns an expression for the whole texts that match a pattern of JSON Schema, exactly, in
    the syntax of `grammars.regex.reader`; None: there is none."""
    reading = read_pattern(pattern)
    return None if reading is None or reading.left_out else reading.regex


def _try_without(
    pattern: str, dropped: frozenset[int], max_steps: int
) -> tuple[ParsedPattern, Expression] | None:
    """Reads a pattern without some of its assertions, and rewrites it without the others; None:
    that takes more steps, or becomes too large."""
    errors = suppress(StepsError, TooManyStatesError)
    with errors, limit_steps(max_steps), keep_derivatives():
        source = parse_pattern(pattern, dropped)
        return source, remove_assertions(source.expression)
    return None


def _leave_out_some(pattern: str) -> tuple[ParsedPattern, Expression]:
    """Reads a pattern with as many of its assertions as are not too large."""
    dropped = _ALL
    source = parse_pattern(pattern, dropped)
    read = source, source.expression
    for number in range(min(source.assertions, _MAX_TRIED)):
        tried = _try_without(pattern, dropped - {number}, _MAX_STEPS // _MAX_TRIED)
        if tried is not None:
            dropped, read = dropped - {number}, tried
    return read[0], remove_assertions(read[1])
