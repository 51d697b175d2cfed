"""Bounds of dates and times: ajv's keywords `formatMinimum`, `formatMaximum` and so on.

Texts of these formats are ordered as their values are.
A bound says how a text begins: from 2024-03-10 on `2024-03-[1-9]`, `2024-0[4-9]`, `2024-[1-9]`,
`202[5-9]` and so on. What is no date is excluded by the format.

The bound "now", which we add, moves: no expression has it, and texts are compared when they are
checked.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from re import fullmatch
from typing import TypeAlias

from grammars.regex.spelled import NOTHING
from grammars.regex.string_formats import FORMATS

Bounds: TypeAlias = Mapping[str, str]
"""Texts of a format by keyword."""

LOWER = ("formatMinimum", "formatExclusiveMinimum")
UPPER = ("formatMaximum", "formatExclusiveMaximum")
NOW = "now"
_EXCLUSIVE = ("formatExclusiveMinimum", "formatExclusiveMaximum")
_DAY = "2000-01-01T"
"""What stands before times of a day, so that they are read as dates with times."""
_PARTS = {
    "date": slice(0, 10),
    **dict.fromkeys(("time", "time-local", "iso-time"), slice(11, 19)),
    **dict.fromkeys(("date-time", "date-time-local", "iso-date-time"), slice(0, 19)),
}
"""What of `2000-01-01T00:00:00` texts of a format have."""
_REST = "(?s:.*)"


def is_bound(format: object, value: object) -> bool:
    """Returns whether a value of one of the keywords is a bound of this format."""
    if not isinstance(format, str) or format not in _PARTS or not isinstance(value, str):
        return False
    if value == NOW:
        return not _is_time_of_day(format)
    try:
        return fullmatch(FORMATS[format], value) is not None and bool(_read(format, value))
    except ValueError:
        return False


def has_zone(format: str, bound: str) -> bool:
    return _read(format, bound).tzinfo is not None


def _read(format: str, text: str) -> datetime:
    """Reads a date or time; raises ValueError if it has another form."""
    before = _DAY if _is_time_of_day(format) else ""
    return datetime.fromisoformat(before + text.upper())


def _is_time_of_day(format: str) -> bool:
    return _PARTS[format].start > 0


def is_within(format: str, keyword: str, bound: str, text: str) -> bool:
    """Returns whether a text is within a bound. If one of them has no zone, that of the other is
    left out of account, as in pydantic. A text of another format is not restricted."""
    try:
        instant = _read(format, text)
    except ValueError:
        return True
    if bound != NOW:
        limit = _read(format, bound)
    else:  # the present day or instant, local where the compared one has no zone
        limit = datetime.now(instant.tzinfo)
        if format == "date":
            limit = datetime(limit.year, limit.month, limit.day)
    if limit.tzinfo is None or instant.tzinfo is None:
        limit, instant = limit.replace(tzinfo=None), instant.replace(tzinfo=None)
    if instant == limit:
        return keyword not in _EXCLUSIVE
    return (instant > limit) == (keyword in LOWER)


def express_bounds(format: str, bounds: Bounds) -> str:
    """Returns an expression for the texts of a format that are within bounds. Beside a bound with a
    zone, times in other zones than UTC are limited to days that are within it wherever they are
    written."""
    parts = [f"(?:{FORMATS[format]})"]
    for keyword, text in bounds.items():
        bound = _read(format, text)
        limit = _limit if bound.tzinfo is None else _limit_zoned
        parts.append(f"(?:{limit(format, keyword, bound)})")
    return f"(?&{'|'.join(parts)})"


def _limit_zoned(format: str, keyword: str, bound: datetime) -> str:
    utc = bound.astimezone(UTC).replace(tzinfo=None)
    width = _PARTS[format].stop - _PARTS[format].start
    written = f"(?s:.{{{width}}})[.0-9]*"
    options = [
        f"(?&{_limit(format, keyword, bound.replace(tzinfo=None))}|{written})",
        rf"(?&{_limit(format, keyword, utc)}|{written}([Zz]|[+\-]00:00))",
    ]
    if not _is_time_of_day(format):  # a time of the day is never within a bound in all zones
        midnight = utc.replace(hour=0, minute=0, second=0, microsecond=0)
        with suppress(OverflowError):  # in the years 1 and 9999
            if keyword in LOWER:
                options.append(_begin_from(f"{(midnight + timedelta(days=2)).date()}"))
            else:
                options.append(_begin_before(f"{(midnight - timedelta(days=1)).date()}"))
    return f"(?:{'|'.join(options)})"


def _limit(format: str, keyword: str, bound: datetime) -> str:
    """Returns an expression for local times within a bound."""
    whole = bound.replace(microsecond=0)

    def write(instant: datetime) -> str:
        return instant.isoformat()[_PARTS[format]]

    if keyword in UPPER:
        before = _begin_before(write(whole))
        if keyword in _EXCLUSIVE and bound == whole:
            return before
        return rf"(?:{before}|{write(whole)}([Zz+\-]{_REST})?)"
    if keyword in _EXCLUSIVE or bound > whole:
        try:
            whole += timedelta(days=1) if format == "date" else timedelta(seconds=1)
        except OverflowError:
            return NOTHING
    return _begin_from(write(whole))


def _begin_from(text: str) -> str:
    text = _cut_zeros(text)
    options = [f"{text[:-1]}[{text[-1]}-9]"]
    for i in reversed(range(len(text) - 1)):
        if text[i].isdigit() and text[i] != "9":
            options.append(f"{text[:i]}[{int(text[i]) + 1}-9]")
    return f"(?:{'|'.join(options)}){_REST}"


def _begin_before(text: str) -> str:
    text = _cut_zeros(text)
    options: list[str] = []
    for i in reversed(range(len(text))):
        if text[i].isdigit() and text[i] != "0":
            options.append(f"{text[:i]}[0-{int(text[i]) - 1}]")
    return f"(?:{'|'.join(options)}){_REST}" if options else NOTHING


def _cut_zeros(text: str) -> str:
    """Returns a text without an end that nothing of the same beginning is before."""
    ends = ["-01", "-01"]
    if ":" in text:
        ends = [":00", ":00", "T00", *ends]
    for end in ends:
        if not text.endswith(end):
            break
        text = text.removesuffix(end)
    return text
