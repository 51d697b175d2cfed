"""Writes one pattern for the texts that two patterns match, or that a pattern does not match."""

import re

from grammars.limits.steps import WRITTEN, has_steps, spend
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
    # llguidance has to look for a text, too, and its work for that is limited.
    if regex is None or Texts((regex,)).has_text(_MAX_STEPS) is None:
        return None
    return pattern
