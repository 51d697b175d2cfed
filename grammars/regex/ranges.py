"""One regex for the numbers within bounds.

Integers are written as digits alone. Other numbers are plain decimals (`-?digits[.digits]`, no
superfluous leading zero), or scientific ones with one digit before the point, which are ordered by
exponent, then by mantissa. It is one regex in which every prefix can be completed, not an
intersection of several: llguidance fails if a token follows a number that only one of these could
continue.

Readers parse digits alone as an exact integer; with a point or an exponent, as the nearest double.
Rounding keeps the order of numbers. So the latter spellings are within the bounds if they are
between the first and the last double that is.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from grammars.limits.byte_cache import MIB, keep_results

NUMBER = (
    r"-?((0|[1-9][0-9]{0,18})(\.[0-9]{1,30})?"
    r"([eE](-[0-9]{1,3}|\+?([0-9]{1,2}|1[0-9]{2}|2[0-8][0-9])))?"
    r"|[1-9][0-9]{19,79}(\.[0-9]{1,30})?"
    r"|[0-9](\.[0-9]{1,30})?[eE]\+?(289|29[0-9]|30[0-7])"
    r"|1(\.[0-6][0-9]{0,29}|\.7976931348623157)?[eE]\+?308)"
)
"""Any number. The digits are bounded, so that it is a finite double, and so that a model which
repeats a digit comes to an end; an integer of 256 bits has 78 digits."""

_PLACES = 20
"""The maximum number of digits after a point."""
_EXACT_DIGITS = 15
"""Up to this many digits before a point, a number may have one: no encoder writes more."""
_MAX_INTEGER_DIGITS = 80
"""The maximum number of digits of an integer."""
_MAX_LIMIT_LENGTH = 40
"""If a bound has more digits, numbers of that length are not written as digits alone."""
_MIN_EXPONENT, _MAX_EXPONENT = -300, 307
"""Exponents of doubles that are finite and have full precision."""
_BEYOND = 1e308
"""No number from here on is written beside bounds."""


@dataclass(frozen=True)
class _Range:
    """The numbers from one limit to another, both included; None: unlimited on that side."""

    low: Decimal | None
    high: Decimal | None


def express_range(
    bounds: Mapping[str, float], *, integer: bool, places: int | None = None
) -> str | None:
    """Returns a regex for the numbers within bounds, or for the integers, as digits; None: there
    are none.

    Args:
        bounds: any of `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`.
        places: the maximum number of digits after a point; no number then has an exponent.
    """
    return _express(tuple(bounds.items()), integer, places)


@keep_results("regexes", 4 * MIB)
def _express(
    bounds: tuple[tuple[str, float], ...], integer: bool, places: int | None
) -> str | None:
    integers = _find_limits(bounds, _find_integer)

    def write_integers(low: Decimal, high: Decimal | None) -> list[str]:
        return _plain(low, high, 1 if integer else _EXACT_DIGITS + 1, _MAX_INTEGER_DIGITS, places=0)

    def write_decimals(low: Decimal, high: Decimal | None) -> list[str]:
        return _plain(low, high, 1, _EXACT_DIGITS, places=_PLACES if places is None else places)

    options = _with_signs(write_integers, integers)
    if not integer:
        doubles = _find_limits(bounds, _find_double)
        options = _with_signs(write_decimals, doubles) + options
        if places is None:
            options += _with_signs(_scientific, doubles)
    return _join(options)


def _find_limits(
    bounds: Iterable[tuple[str, float]], find_first: Callable[[float, bool], float]
) -> _Range:
    """Returns the limits of the numbers within bounds. `find_first` finds the least number from a
    bound on; its second argument: the bound itself is excluded."""
    lows: list[float] = []
    highs: list[float] = []
    for keyword, bound in bounds:
        is_strict = keyword.startswith("exclusive")
        if keyword.lower().endswith("minimum"):
            lows.append(find_first(bound, is_strict))
        else:
            highs.append(-find_first(-bound, is_strict))
    low = _read(max(lows)) if lows else None
    return _Range(low, _read(min(highs)) if highs else None)


def _find_integer(bound: float, is_strict: bool) -> int:
    return math.floor(bound) + 1 if is_strict else math.ceil(bound)


def _find_double(bound: float, is_strict: bool) -> float:
    if abs(bound) >= _BEYOND:  # also if it is an integer larger than any double
        return bound
    nearest = float(bound)
    if nearest < bound or (is_strict and nearest == bound):
        return math.nextafter(nearest, math.inf)
    return nearest


def _read(number: float) -> Decimal:
    """Returns the decimal of a number; zero without a sign."""
    return Decimal(repr(number)) if isinstance(number, float) and number else Decimal(int(number))


_Write: TypeAlias = "Callable[[Decimal, Decimal | None], list[str]]"


def _with_signs(write: _Write, within: _Range) -> list[str]:
    """Writes the numbers with and those without a sign."""
    low, high = within.low, within.high
    options = _positive(write, _or_zero(low), high)
    if low is None or low < 0:
        negative = _positive(write, _or_zero(_negate(high)), _negate(low))
        if negative:
            options.append(f"-({'|'.join(negative)})")
    return options


def _negate(limit: Decimal | None) -> Decimal | None:
    return limit.copy_negate() if limit else limit  # a zero has no sign


def _or_zero(low: Decimal | None) -> Decimal:
    """Returns the lower limit of numbers without a sign."""
    return Decimal(0) if low is None or low < 0 else low


def _positive(write: _Write, low: Decimal, high: Decimal | None) -> list[str]:
    """Writes the numbers without a sign."""
    if high is not None and high < low:
        return []
    return write(low, high)


def _plain(
    low: Decimal, high: Decimal | None, shortest: int, longest: int, *, places: int
) -> list[str]:
    """Writes decimals of `shortest` to `longest` integer digits and up to `places` fraction digits:
    those with as many integer digits as a limit, and the other lengths."""
    first, last = max(shortest, _count_digits(low)), longest
    if high is not None:
        last = min(last, _count_digits(high))
    options: list[str] = []
    free: list[int] = []
    for length in range(first, last + 1):
        below = low if _count_digits(low) == length else None
        above = high if high is not None and _count_digits(high) == length else None
        if below is None and above is None:
            free.append(length)
        elif length <= _MAX_LIMIT_LENGTH:
            written = _express_fixed(length, below, above, places=places)
            options += [] if written is None else [written]
    if free:
        options.append(f"[1-9][0-9]{{{free[0] - 1},{free[-1] - 1}}}{_write_fraction(places)}")
    return options


def _list_digits(number: Decimal | None) -> str | None:
    """Returns the integer digits, then those of the fraction, without superfluous zeros."""
    if number is None:
        return None
    whole, _, fraction = format(number, "f").partition(".")
    return (whole.lstrip("0") or "0") + fraction.rstrip("0")


def _count_digits(number: Decimal) -> int:
    """Returns the number of integer digits."""
    return max(1, number.adjusted() + 1)


def _scientific(low: Decimal, high: Decimal | None) -> list[str]:
    """Writes numbers with an exponent: those with the exponent of a limit, then those between."""
    if high is not None and not high:
        return []
    first, last = _MIN_EXPONENT, _MAX_EXPONENT
    edges: dict[int, tuple[Decimal | None, Decimal | None]] = {}
    if low:
        exponent = low.adjusted()
        edges[exponent] = low.scaleb(-exponent), None
        first = max(first, exponent)
    if high is not None:
        exponent = high.adjusted()
        below, _ = edges.get(exponent, (None, None))
        edges[exponent] = below, high.scaleb(-exponent)
        last = min(last, exponent)
    options: list[str] = []
    for exponent, (below, above) in edges.items():
        if first <= exponent <= last:
            mantissa = _express_fixed(1, below, above, places=_PLACES, least=1)
            if mantissa is not None:
                options.append(f"({mantissa})[eE]{_express_exponents(exponent, exponent)}")
    if first in edges:
        first += 1
    if last in edges:
        last -= 1
    if first <= last:
        options.append(f"[1-9]{_write_fraction(_PLACES)}[eE]{_express_exponents(first, last)}")
    return options


def _join(options: Iterable[str | None]) -> str | None:
    """Returns the union of the regexes that are not None; None: there are none."""
    found = dict.fromkeys(option for option in options if option is not None)
    return "|".join(found) if found else None


def _write_fraction(places: int) -> str:
    """Writes a point and up to so many digits, or nothing."""
    return rf"(\.[0-9]{{1,{places}}})?" if places else ""


def _express_fixed(
    length: int, low: Decimal | None, high: Decimal | None, *, places: int, least: int | None = None
) -> str | None:
    """Writes numbers of `length` integer digits, as many as the limits have, and up to `places`
    fraction digits. `least` is the least first digit; None: zero, if it is the only one."""
    if least is None:
        least = 0 if length == 1 else 1
    return _integer(length, _list_digits(low), _list_digits(high), places=places, least=least)


def _integer(
    length: int, low: str | None, high: str | None, *, places: int, least: int = 0
) -> str | None:
    """Writes the digits before the point, and what follows them; `low`, `high`: the remaining
    digits of the limits, those of the fraction last."""
    if not length:
        return _fraction(low, high, places)
    if low is None and high is None:
        more = f"[0-9]{{{length - 1}}}" if length > 1 else ""
        return f"[{least}-9]{more}{_write_fraction(places)}"

    def go_on(low: str | None, high: str | None) -> str | None:
        return _integer(length - 1, low, high, places=places)

    return _join(_branch(low, high, go_on, least=least))


def _fraction(low: str | None, high: str | None, places: int) -> str | None:
    """Writes a point and digits, or nothing if the number may end."""
    digits = _digits(low, high, places, fewest=1)
    if digits is not None:
        digits = rf"\.({digits})"
    return _or_end(digits) if _is_zero(low) else digits


def _digits(low: str | None, high: str | None, most: int, *, fewest: int = 0) -> str | None:
    """Writes fraction digits; none at all only if `fewest` is 0 and the number may end."""
    may_end = not fewest and _is_zero(low)
    if not most:
        return "" if may_end else None
    if _is_zero(low) and high is None:
        return f"[0-9]{{{fewest},{most}}}"
    if _is_zero(low) and _is_zero(high):
        return f"0{{{fewest},{most}}}"

    def go_on(low: str | None, high: str | None) -> str | None:
        return _digits(low, high, most - 1)

    digits = _join(_branch(low, high, go_on))
    return _or_end(digits) if may_end else digits


def _or_end(regex: str | None) -> str:
    """Returns the regex, if there is one, as optional."""
    return "" if regex is None else f"({regex})?"


def _is_zero(limit: str | None) -> bool:
    """Returns whether only zeros are left of a limit, or there is none."""
    return limit is None or not limit.strip("0")


_GoOn: TypeAlias = Callable[[str | None, str | None], str | None]


def _branch(low: str | None, high: str | None, go_on: _GoOn, *, least: int = 0) -> list[str | None]:
    """Writes a digit and what follows it: as in one of the limits, or free between them."""
    if _is_zero(low):
        low = None
    bottom, top = least, 9
    first, last = int((low or "0")[:1]), int((high or "0")[:1])
    if low is not None and high is not None and first == last:
        return [_follow(first, first, go_on(low[1:], high[1:]))]
    options: list[str | None] = []
    if low is not None and first >= least:
        options.append(_follow(first, first, go_on(low[1:], None)))
        bottom = first + 1
    if high is not None and last >= least:
        options.append(_follow(last, last, go_on(None, high[1:])))
        top = last - 1
    if bottom <= top:
        options.append(_follow(bottom, top, go_on(None, None)))
    return options


def _follow(first: int, last: int, rest: str | None) -> str | None:
    """Writes a digit of a range, and the rest after it."""
    if rest is None:
        return None
    digit = str(first) if first == last else f"[{first}-{last}]"
    return digit + (f"({rest})" if "|" in rest else rest)


def _express_exponents(first: int, last: int) -> str:
    """Writes the integers of a range as exponents, with an optional sign and leading zeros."""
    options: list[str | None] = []
    if last >= 0:
        options.append(rf"\+?({_express_exponent(max(first, 0), last)})")
    if first < 0:
        options.append(f"-({_express_exponent(max(-last, 1), -first)})")
    return f"({_join(options)})"


def _express_exponent(first: int, last: int) -> str | None:
    """Writes the natural numbers of a range; a single digit may have one leading zero."""
    options: list[str | None] = []
    low, high = Decimal(first), Decimal(last)
    for digit in _plain(low, high, 1, 1, places=0):
        options.append(f"0?({digit})")
    options += _plain(low, high, 2, 3, places=0)
    return _join(options)
