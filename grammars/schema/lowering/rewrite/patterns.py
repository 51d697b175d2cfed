"""Writes one pattern for the texts that two patterns match, or that a pattern does not match."""

import re
from contextlib import suppress

from grammars.limits.steps import WRITTEN, StepsError, has_steps, limit_steps, spend
from grammars.regex.ecma import read_pattern, translate
from grammars.regex.texts import Texts

_ALSO = r"^(?=[\s\S]*(?:"  # the beginning of a joined pattern
_REFERENCE = re.compile(r"\\[1-9k]|\(\?P=")
_MAX_STEPS = 3_000
_KEPT_STEPS = 30_000  # that are left for the rest of a schema
_MAX_LENGTH = 1_000
"""Characters of a joined pattern. Each pattern that is joined reads those before it again."""


def join_patterns(a: str, b: str) -> str | None:
    """Returns a pattern for the texts that match both; None if there is none that is exact."""
    one, other = read_pattern(a), read_pattern(b)
    if one is None or other is None or one.is_unicode != other.is_unicode:
        return None
    if any(map(_REFERENCE.search, (a, b))):  # groups have other numbers in a joined pattern
        return None
    joined = rf"{_ALSO}{b}))[\s\S]*(?:{a})"
    if a.startswith(_ALSO):
        joined = f"{_ALSO}{b})){a[1:]}"
    return _accept(joined)


def negate_pattern(pattern: str) -> str | None:
    """Returns a pattern for the texts that do not match; None if there is none that is exact."""
    return _accept(rf"^(?![\s\S]*(?:{pattern}))")


def _accept(pattern: str) -> str | None:
    if len(pattern) > _MAX_LENGTH or not has_steps(_KEPT_STEPS):
        return None
    spend(1 + len(pattern) // WRITTEN)
    regex = translate(pattern)
    return None if regex is None or not _is_easy(regex) else pattern


def _is_easy(regex: str) -> bool:
    """Returns whether a text is soon found, or that there is none: llguidance has to look for one,
    too, and its work for that is limited."""
    texts = Texts((regex,))
    with suppress(StepsError), limit_steps(_MAX_STEPS):
        return texts.extend("") is not None or texts.is_empty()
    return False
