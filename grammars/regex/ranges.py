"""One regex for the spellings of all numbers within bounds.

It has plain decimals (`-?digits[.digits]`, no superfluous leading zero), and scientific ones with
one digit before the point, which are ordered by exponent, then by mantissa. Both are exact. It is
one regex in which every prefix can be completed, not an intersection of several: llguidance fails
if a token follows a number that only one of these could continue.

Readers parse digits alone as an exact integer; with a point or an exponent, as the nearest double.
So the latter spellings stay within the doubles that are within the bounds.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import partial
from itertools import groupby
from typing import TypeAlias

from grammars.byte_cache import MIB, keep_results

NUMBER = (
    r"-?((0|[1-9][0-9]{0,18})(\.[0-9]{1,30})?"
    r"([eE](-[0-9]{1,3}|\+?([0-9]{1,2}|1[0-9]{2}|2[0-8][0-9])))?"
    r"|[1-9][0-9]{19,79}(\.[0-9]{1,30})?"
    r"|[0-9](\.[0-9]{1,30})?[eE]\+?(289|29[0-9]|30[0-7])"
    r"|1(\.[0-6][0-9]{0,29}|\.7976931348623157)?[eE]\+?308)"
)
"""Any number. The digits are bounded, so that it is a finite double, and so that a model which
repeats a digit comes to an end; an integer of 256 bits has 78 digits."""

_EXACT_DIGITS = 15
"""Decimals of up to this many digits keep their order as doubles."""
_MAX_DECIMAL_DIGITS = 21
"""The maximum that Python writes of a double, leading zeros included. A longer decimal may round to
the bound itself, which only matters if that is excluded; and only zero rounds to zero."""
_MAX_INTEGER_DIGITS = 80
"""The maximum number of digits of an integer."""
_MAX_LIMIT_LENGTH = 40
"""If a bound has more digits, numbers of that length are not written as digits alone."""
_SMALLEST, _LARGEST = 1e-12, 1e40
"""Outside this range, a bound is excluded by a few digits instead of the next double, which has too
many."""
_MIN_EXPONENT, _MAX_EXPONENT = -300, 307
"""Exponents of doubles that are finite and have full precision."""
_SOME_ZEROS = rf"\.0{{1,{_EXACT_DIGITS}}}"
_ZEROS = f"({_SOME_ZEROS})?"


@dataclass(frozen=True)
class Limit:
    """A bound of numbers; `strict`: the bound itself is excluded."""

    value: Decimal
    strict: bool = False

    @property
    def digits(self) -> tuple[str, str]:
        """Integer and fraction digits, without superfluous zeros."""
        whole, _, fraction = format(self.value, "f").partition(".")
        return whole.lstrip("0") or "0", fraction.rstrip("0")

    @property
    def whole(self) -> int:
        """The number of integer digits."""
        return len(self.digits[0])

    @property
    def exponent(self) -> int:
        """The exponent of its scientific spelling."""
        return self.value.adjusted()


@dataclass(frozen=True)
class _Range:
    """The numbers between two limits; None: unlimited on that side."""

    low: Limit | None = None
    high: Limit | None = None

    @property
    def limits(self) -> tuple[Limit | None, Limit | None]:
        """The lower and the upper limit."""
        return self.low, self.high

    @property
    def rounded(self) -> "_Range":
        """The range with limits for integers."""
        low = None if self.low is None else _round(self.low, is_lower=True)
        return _Range(low, None if self.high is None else _round(self.high, is_lower=False))

    @property
    def written_out(self) -> "_Range":
        """The range with the exact decimals of its doubles as limits."""
        low = None if self.low is None else _write_out(self.low)
        return _Range(low, None if self.high is None else _write_out(self.high))

    def cut(self, limit: Limit, is_lower: bool) -> "_Range":
        """Returns the part of the range that is also within this limit."""
        if is_lower:
            lows = [limit] if self.low is None else [self.low, limit]
            return replace(self, low=max(lows, key=lambda one: (one.value, one.strict)))
        highs = [limit] if self.high is None else [self.high, limit]
        return replace(self, high=min(highs, key=lambda one: (one.value, not one.strict)))


@dataclass(frozen=True)
class _Kind:
    """How numbers are spelled.

    Args:
        integer: a fraction consists of zeros.
        digits: the maximum number of digits of a decimal.
        exponents: the minimum and the maximum exponent.
    """

    integer: bool
    digits: int
    exponents: tuple[int, int] = (_MIN_EXPONENT, _MAX_EXPONENT)


_WHOLE = _Kind(integer=True, digits=_EXACT_DIGITS, exponents=(0, _EXACT_DIGITS))
"""Integers. With a point or an exponent, only those that doubles distinguish."""
_LARGEST_EXACT = 2**53
"""Up to this value, each integer is a distinct double."""
_LARGE = _Kind(integer=False, digits=17, exponents=(_EXACT_DIGITS + 1, _MAX_EXPONENT))
"""Doubles that are integers, as encoders write the large ones (`1.5e+16`)."""


def express_range(bounds: Mapping[str, float], *, integer: bool) -> str | None:
    """Returns a regex for the numbers within bounds; None: there are none.

    Args:
        bounds: any of `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`.
        integer: only integers; a fraction of zeros is allowed.
    """
    return _express(tuple(bounds.items()), integer)


@keep_results("regexes", 4 * MIB)
def _express(bounds: tuple[tuple[str, float], ...], integer: bool) -> str | None:
    exact, near = _Range(), _Range()
    for keyword, bound in bounds:
        is_lower = keyword.lower().endswith("minimum")
        limit = Limit(_read(bound), keyword.startswith("exclusive"))
        double = limit
        if integer:
            if abs(bound) > _LARGEST_EXACT:
                limit = replace(limit, value=Decimal(int(bound)))
            limit = _round(limit, is_lower)
            double = _find_double(limit, is_lower)
        elif isinstance(bound, int):
            double = _find_double(limit, is_lower)
        if double.strict and bound:
            double = _step_over(double, is_lower)
        exact = exact.cut(limit, is_lower)
        near = near.cut(double, is_lower)
    if integer:
        options = [
            *_with_signs(_plain, _WHOLE, exact),
            *_with_signs(_scientific, _WHOLE, exact),
            *_with_signs(_pointed, _WHOLE, near),
            *_with_signs(_scientific, _LARGE, near),
        ]
        return _join(options)
    is_exact = any(limit is not None and limit.strict and limit.value for limit in near.limits)
    kind = _Kind(integer=False, digits=_EXACT_DIGITS if is_exact else _MAX_DECIMAL_DIGITS)
    options = _with_signs(_plain, kind, near.written_out) + _with_signs(_scientific, kind, near)
    if exact != near:
        options += _with_signs(_plain, replace(_WHOLE, digits=0), exact.rounded)
    return _join(options)


_Write: TypeAlias = "Callable[[_Kind, Limit, Limit | None], list[str]]"


def _with_signs(write: _Write, kind: _Kind, within: "_Range") -> list[str]:
    """Writes the numbers with and those without a sign."""
    low, high = within.limits
    options = _positive(write, kind, _or_zero(low), high)
    negative = _positive(write, kind, _or_zero(_negate(high)), _negate(low))
    if negative and (low is None or low.value < 0):
        options.append(f"-({'|'.join(negative)})")
    return options


def _find_double(limit: Limit, is_lower: bool) -> Limit:
    """Returns an equivalent limit for doubles, if the limit is an integer that may be no double."""
    if not _EXACT_DIGITS <= limit.value.adjusted() <= _MAX_EXPONENT:
        return limit
    nearest = float(limit.value)
    if is_lower and int(nearest) < limit.value:
        return Limit(Decimal(repr(math.nextafter(nearest, math.inf))))
    if not is_lower and int(nearest) > limit.value:
        return Limit(Decimal(repr(math.nextafter(nearest, -math.inf))))
    return Limit(Decimal(repr(nearest)), limit.strict and int(nearest) == limit.value)


def _write_out(limit: Limit) -> Limit:
    """Returns the exact decimal of the limit, if it is a double with more digits than its spelling
    has."""
    if not _LARGEST_EXACT < abs(limit.value) < 10**_MAX_EXPONENT:
        return limit
    return replace(limit, value=Decimal(float(limit.value)))


def _read(bound: float) -> Decimal:
    """Returns the exact decimal of a bound; zero without a sign."""
    return Decimal(repr(bound)) if bound else Decimal(0)


def _step_over(limit: Limit, is_lower: bool) -> Limit:
    """Replaces an excluded bound by the next double: whatever is written from there on is read as a
    double other than the bound. An extreme bound stays as it is."""
    if not Decimal(_SMALLEST) <= abs(limit.value) <= Decimal(_LARGEST):
        return limit
    beyond = math.inf if is_lower else -math.inf
    return Limit(Decimal(repr(math.nextafter(float(limit.value), beyond))))


def _round(limit: Limit, is_lower: bool) -> Limit:
    """Returns the equivalent integer limit for integers."""
    nearest = limit.value.to_integral_value(ROUND_CEILING if is_lower else ROUND_FLOOR)
    if limit.strict and nearest == limit.value:
        nearest = Decimal(int(nearest) + (1 if is_lower else -1))
    return Limit(nearest.copy_abs() if nearest.is_zero() else nearest, strict=False)


def _negate(limit: Limit | None) -> Limit | None:
    if limit is None or limit.value.is_zero():
        return limit
    return replace(limit, value=limit.value.copy_negate())


def _or_zero(low: Limit | None) -> Limit:
    """Returns the lower limit of numbers without a sign."""
    return Limit(Decimal(0)) if low is None or low.value < 0 else low


def _positive(write: _Write, kind: _Kind, low: Limit, high: Limit | None) -> list[str]:
    """Writes the numbers without a sign."""
    if high is not None and (high.value < low.value or high.value < 0):
        return []
    return write(kind, low, high)


def _plain(kind: _Kind, low: Limit, high: Limit | None) -> list[str]:
    """Writes decimals: those with as many integer digits as a limit, then the other lengths."""
    first = low.whole
    last = _MAX_INTEGER_DIGITS if high is None else min(high.whole, _MAX_INTEGER_DIGITS)
    if kind.digits == _EXACT_DIGITS and not kind.integer:
        last = min(last, _EXACT_DIGITS)
    options: list[str | None] = []
    between: list[int] = []
    for length in range(first, last + 1):
        below, above = _find_limit(low, length), _find_limit(high, length)
        if below is None and above is None:
            between.append(length)
        elif length <= _MAX_LIMIT_LENGTH:
            options.append(_express_fixed(length, below, above, tail=_tail(kind, length)))
    for tail, lengths in groupby(between, key=partial(_tail, kind)):
        options += _group(list(lengths), tail if isinstance(tail, str) else _up_to(tail, r"\."))
    return [option for option in options if option is not None]


def _pointed(kind: _Kind, low: Limit, high: Limit | None) -> list[str]:
    """Writes integers with a point and one digit more than `kind` allows, as far as each is a
    distinct double: all up to 2^53, then the even ones up to the next multiple of ten."""
    length = kind.digits + 1
    least, greatest = int(low.value), 10**length - 1
    if high is not None:
        greatest = min(greatest, int(high.value))
    least = max(least, 10**kind.digits)
    exact = _find_between(length, least, min(greatest, _LARGEST_EXACT), tail=_SOME_ZEROS)
    first, last = -(-max(least, _LARGEST_EXACT) // 10), (greatest - 8) // 10  # in tens
    even = _find_between(kind.digits, first, last, tail="[02468]" + _SOME_ZEROS)
    return [option for option in (exact, even) if option is not None]


def _find_between(length: int, least: int, greatest: int, *, tail: str) -> str | None:
    """Writes the integers of this length from one to the other; None: there are none."""
    if least > greatest:
        return None
    low, high = Limit(Decimal(least)), Limit(Decimal(greatest))
    return _express_fixed(length, low, high, tail=tail)


def _find_limit(limit: Limit | None, length: int) -> Limit | None:
    """Returns the limit, if it has this number of integer digits."""
    return limit if limit is not None and limit.whole == length else None


def _tail(kind: _Kind, length: int) -> int | str:
    """Returns what may follow this number of integer digits: the maximum number of fraction digits,
    or a regex."""
    if kind.integer:
        return _ZEROS if length <= kind.digits else ""
    return max(0, kind.digits - length)


def _group(lengths: list[int], tail: str) -> list[str]:
    """Writes all numbers with these numbers of integer digits."""
    if not lengths:
        return []
    return [f"[1-9][0-9]{{{lengths[0] - 1},{lengths[-1] - 1}}}{tail}"]


def _scientific(kind: _Kind, low: Limit, high: Limit | None) -> list[str]:
    """Writes numbers with an exponent: those with the exponent of a limit, then those between."""
    if high is not None and high.value == 0:
        return []
    first, last = kind.exponents
    tail = _ZEROS if kind.integer else kind.digits - 1
    edges: dict[int, tuple[Limit | None, Limit | None]] = {}
    if low.value > 0:
        edges[low.exponent] = _scale(kind, low, is_lower=True), None
        first = max(first, low.exponent)
    if high is not None:
        below, _ = edges.get(high.exponent, (None, None))
        edges[high.exponent] = below, _scale(kind, high, is_lower=False)
        last = min(last, high.exponent)
    options: list[str] = []
    for exponent, (below, above) in edges.items():
        if first <= exponent <= last and _is_between(below, above):
            mantissa = _express_fixed(1, below, above, tail=tail, zero=False)
            if mantissa is not None:
                options.append(f"({mantissa})[eE]{_express_exponents(exponent, exponent)}")
    if first in edges:
        first += 1
    if last in edges:
        last -= 1
    if first <= last:
        mantissa = _express_fixed(1, None, None, tail=tail, zero=False)
        options.append(f"({mantissa})[eE]{_express_exponents(first, last)}")
    return options


def _scale(kind: _Kind, limit: Limit, *, is_lower: bool) -> Limit:
    """Returns the mantissa of a limit in its scientific spelling."""
    mantissa = Limit(limit.value.scaleb(-limit.exponent), limit.strict)
    return _round(mantissa, is_lower) if kind.integer else mantissa


def _is_between(low: Limit | None, high: Limit | None) -> bool:
    """Returns whether a mantissa exists between the limits, which may have been rounded."""
    return low is None or (low.whole == 1 and (high is None or low.value <= high.value))


@dataclass(frozen=True)
class _Rest:
    """The remaining digits of a limit, those of the fraction last."""

    digits: str
    strict: bool

    @classmethod
    def of(cls, limit: Limit | None) -> "_Rest | None":
        return None if limit is None else cls("".join(limit.digits), limit.strict)

    @property
    def is_below_all(self) -> bool:
        """For a lower limit: true if any further digits are allowed."""
        return self.is_zero and not self.strict

    @property
    def first(self) -> int:
        return int(self.digits[:1] or "0")

    @property
    def next(self) -> "_Rest":
        return _Rest(self.digits[1:], self.strict)

    @property
    def is_zero(self) -> bool:
        return not self.digits.strip("0")


_GoOn: TypeAlias = Callable[[_Rest | None, _Rest | None], str | None]


def _join(options: Iterable[str | None]) -> str | None:
    """Returns the union of the regexes that are not None; None: there are none."""
    found = dict.fromkeys(option for option in options if option is not None)
    return "|".join(found) if found else None


def _up_to(max_digits: int, before: str) -> str:
    """Writes up to `max_digits` digits; `before` comes only before one or more."""
    if max_digits <= 0:
        return ""
    return f"({before}[0-9]{{1,{max_digits}}})?"


def _express_fixed(
    length: int,
    low: Limit | None,
    high: Limit | None,
    *,
    tail: int | str,
    zero: bool = True,
) -> str | None:
    """Writes numbers whose integer length equals that of the limits; `tail`: the maximum number of
    fraction digits, or a regex that follows integers; `zero`: a single integer digit may be
    zero."""
    least = 0 if length == 1 and zero else 1
    return _integer(length, _Rest.of(low), _Rest.of(high), tail=tail, least=least)


def _integer(
    length: int, low: _Rest | None, high: _Rest | None, *, tail: int | str, least: int = 0
) -> str | None:
    """Writes the digits before the point, and what follows them."""
    if not length:
        if isinstance(tail, str):
            return tail
        return _fraction(low, high, tail)
    if low is None and high is None:
        body = f"[{least}-9]"
        if length > 1:
            body += f"[0-9]{{{length - 1}}}"
        return body + (tail if isinstance(tail, str) else _up_to(tail, r"\."))

    def go_on(low: _Rest | None, high: _Rest | None) -> str | None:
        return _integer(length - 1, low, high, tail=tail)

    return _join(_branch(low, high, go_on, least=least))


def _fraction(low: _Rest | None, high: _Rest | None, max_digits: int) -> str | None:
    """Writes a point and digits, or nothing if the number may end."""
    digits = _digits(low, high, max_digits, is_open=False)
    if digits is not None:
        digits = rf"\.({digits})"
    return _or_end(digits, may_end=_may_end(low, high))


def _or_end(regex: str | None, *, may_end: bool) -> str | None:
    """Returns the regex, if there is one; optional if the number may end."""
    if not may_end:
        return regex
    return "" if regex is None else f"({regex})?"


def _may_end(low: _Rest | None, high: _Rest | None) -> bool:
    """Returns whether the number may end here, as if zeros followed."""
    is_below = high is None or not high.is_zero or not high.strict
    return is_below and (low is None or low.is_below_all)


def _digits(
    low: _Rest | None, high: _Rest | None, max_digits: int, *, is_open: bool = True
) -> str | None:
    """Writes one or more fraction digits; `is_open`: or none, if the number may end."""
    may_end = is_open and _may_end(low, high)
    if max_digits == 0:
        return _or_end(None, may_end=may_end)
    fewest = 0 if is_open else 1
    if low is None and high is None:
        return f"[0-9]{{{fewest},{max_digits}}}"
    if low is None and high is not None and high.is_zero and not high.strict:
        return f"0{{{fewest},{max_digits}}}"

    def go_on(low: _Rest | None, high: _Rest | None) -> str | None:
        return _digits(low, high, max_digits - 1)

    return _or_end(_join(_branch(low, high, go_on)), may_end=may_end)


def _branch(
    low: _Rest | None, high: _Rest | None, go_on: _GoOn, *, least: int = 0
) -> list[str | None]:
    """Writes a digit and what follows it: as in one of the limits, or free between them."""
    if low is not None and low.is_below_all:
        low = None
    if low is not None and high is not None and low.first == high.first:
        return [_follow(low.first, low.first, go_on(low.next, high.next))]
    bottom, top = least, 9
    options: list[str | None] = []
    if low is not None and low.first >= least:
        options.append(_follow(low.first, low.first, go_on(low.next, None)))
        bottom = low.first + 1
    if high is not None and high.first >= least:
        options.append(_follow(high.first, high.first, go_on(None, high.next)))
        top = high.first - 1
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
        options.append(rf"\+?({_express_numbers(max(first, 0), last)})")
    if first < 0:
        options.append(f"-({_express_numbers(max(-last, 1), -first)})")
    return f"({_join(options)})"


def _express_numbers(first: int, last: int) -> str | None:
    """Writes the natural numbers of a range; a single digit may have one leading zero."""
    options: list[str | None] = []
    low, high = Limit(Decimal(first)), Limit(Decimal(last))
    for length in range(low.whole, high.whole + 1):
        below, above = _find_limit(low, length), _find_limit(high, length)
        fixed = _express_fixed(length, below, above, tail="")
        if fixed is not None:
            zero = "0?" if length == 1 else ""
            options.append(f"{zero}({fixed})")
    return _join(options)
