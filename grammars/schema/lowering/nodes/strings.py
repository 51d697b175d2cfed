"""Strings of a flat schema: which patterns, formats and lengths a mask enforces."""

import re
from collections.abc import Mapping
from contextlib import suppress

from grammars.limits.byte_cache import MIB, keep_results
from grammars.limits.steps import StepsError, limit_steps
from grammars.regex.ecma import read_pattern
from grammars.regex.reader import counts_words
from grammars.regex.spelled import is_fully_spelled
from grammars.regex.string_formats import ASSERTED, FORMATS, NARROWED
from grammars.regex.texts import Texts
from grammars.regex.time_bounds import LOWER, NOW, UPPER, express_bounds, has_zone, is_bound
from grammars.schema.json_values import Json
from grammars.schema.lowering.findings import Findings
from grammars.schema.nodes import String

_LONG = 50  # characters
_LONG_BESIDE_WORDS = 100
"""A longer `maxLength` beside a pattern that counts words is checked, not enforced: llguidance
would follow both counts at once, and refuse texts that fit, or exceed its limit of expressions."""
_LONG_BESIDE_PATTERN = 2_500
"""A longer `maxLength` beside a pattern is checked, not enforced: llguidance has states for each
length, and for 6,000 characters more than it can keep."""
_MAX_PATTERN_LENGTH = 200_000  # characters; a class of all letters has 10,000
_MAX_JOINED = 3_000  # steps, of 20 us; real pairs take up to 2,000
_MAX_COUNTED = 2**31 - 1
_TOO_MUCH = "too much for a mask together with that pattern"
_ASSERTING_CONTENT = (6, 7)
_PROPERTY = re.compile(r"\\[pP]\{")
_REPEATED = re.compile(r"\)[*+{]")


def lower_string(flat: Mapping[str, Json], pointer: str, findings: Findings) -> String:
    pattern = _join_format(_read_pattern(flat, pointer, findings), flat, pointer, findings)
    if findings.draft in _ASSERTING_CONTENT:
        for keyword in ("contentEncoding", "contentMediaType"):
            if keyword in flat:
                findings.check(pointer, keyword, "asserted in this draft")
    shortest = read_length(flat, "minLength", pointer, findings) or 0
    longest = read_length(flat, "maxLength", pointer, findings)
    if pattern is None:
        return String(shortest, longest)
    if shortest > _LONG and _REPEATED.search(pattern):
        findings.check(pointer, "minLength", _TOO_MUCH)
        shortest = 0
    bearable = _LONG_BESIDE_WORDS if counts_words(pattern) else _LONG_BESIDE_PATTERN
    if longest is not None and longest > bearable:
        findings.check(pointer, "maxLength", _TOO_MUCH)
        longest = None
    return String(shortest, longest, pattern)


def _read_pattern(flat: Mapping[str, Json], pointer: str, findings: Findings) -> str | None:
    """Returns the texts of `pattern` for the mask; None: all."""
    pattern = flat.get("pattern")
    if pattern is None:
        return None
    reading = read_pattern(pattern)
    if reading is None or len(reading.regex) > _MAX_PATTERN_LENGTH:
        findings.check(pointer, "pattern", "too large for a mask")
        return None
    if reading.left_out:
        reason = f"not in the mask: {', '.join(reading.left_out)}"
        findings.check(pointer, "pattern", reason)
    if not reading.is_unicode and _PROPERTY.search(pattern):
        reason = "it is valid without the flag u only, where \\p{L} is a text and no class"
        findings.narrow(pointer, "pattern", reason)
    if not is_fully_spelled(reading.regex):
        findings.narrow(pointer, "pattern", "no characters by their numbers (\\u00e9)")
    return reading.regex


def _join_format(
    pattern: str | None, flat: Mapping[str, Json], pointer: str, findings: Findings
) -> str | None:
    """Returns the texts of the pattern that have the `format`, too, as far as a mask can."""
    name = flat.get("format")
    held = None
    if name in FORMATS:
        held = hold_format(pattern, _bound_format(name, flat, pointer, findings))
    if held is None:
        if name in FORMATS or name in ASSERTED:
            findings.check_format(pointer, name)
        return pattern
    if held != pattern and name in NARROWED:
        findings.narrow(pointer, "format", NARROWED[name])
    return held


def _bound_format(name: str, flat: Mapping[str, Json], pointer: str, findings: Findings) -> str:
    bounds: dict[str, Json] = {}
    for keyword in (*LOWER, *UPPER):
        if keyword not in flat:
            continue
        bound = flat[keyword]
        if not is_bound(name, bound):
            findings.ignore(pointer, keyword, f"no bound of the format {name!r}")
            continue
        if bound == NOW:
            findings.check(pointer, keyword, "what is past changes with time")
            continue
        bounds[keyword] = bound
        if has_zone(name, bound):
            findings.narrow(pointer, keyword, "in other zones than UTC: whole days")
    return express_bounds(name, bounds) if bounds else FORMATS[name]


@keep_results("regexes", MIB)
def hold_format(pattern: str | None, regex: str) -> str | None:
    """Returns an expression for the texts of a pattern that have a format: the pattern itself if it
    has no others; None if no text is found, or not without much effort."""
    if pattern is None:
        return regex
    with suppress(StepsError), limit_steps(_MAX_JOINED):
        if Texts((pattern,), (regex,)).is_empty():
            return pattern
    if not Texts((pattern, regex)).has_text(_MAX_JOINED):
        return None
    return f"(?&(?:{pattern})|(?:{regex}))"


def read_length(
    flat: Mapping[str, Json], keyword: str, pointer: str, findings: Findings
) -> int | None:
    """Returns the value of a length keyword, up to the number that a mask can count."""
    value = flat.get(keyword)
    if value is None or value <= _MAX_COUNTED:
        return None if value is None else int(value)
    findings.check(pointer, keyword, "too large for a mask")
    return _MAX_COUNTED if keyword.startswith("min") else None
