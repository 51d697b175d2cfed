"""Numbers within bounds, as one regular expression over their spelling.

Plain decimals (`-?digits[.digits]`, no superfluous zero in front), and scientific ones with one
digit in front of the point: their order is that of the exponents, then that of the mantissas. So
both are exact. It is one expression in which all that has begun can be ended, no intersection of
several: llguidance fails where a token follows a number that one of these could go on with alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from grammars.regex.digits import Limit, count, express_exponents, express_fixed, join

NUMBER = (
    r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,30})?"
    r"([eE](-[0-9]{1,3}|\+?([0-9]{1,2}|1[0-9]{2}|2[0-8][0-9])))?"
)
"""Any number. Its digits are bounded, so that it is a finite double, and an integer has 64 bits."""

_EXACT = 15
"""Decimals of so many digits keep their order when they become doubles."""
_DIGITS = 21
"""As many as Python writes of a double, zeros in front included. A longer decimal may become the
bound itself, which is no harm unless that is excluded; and none but zero becomes zero."""
_LONGEST = 19
_LEAST, _GREATEST = -300, 307
"""Exponents of doubles that are finite, and not so small that they have fewer digits."""
_ZEROS = rf"(\.0{{1,{_EXACT}}})?"


@dataclass(frozen=True)
class _Kind:
    """How numbers are spelled.

    Args:
        integer: a fraction consists of zeros.
        digits: at most so many of a decimal.
    """

    integer: bool
    digits: int

    @property
    def exponents(self) -> tuple[int, int]:
        """An integer with an exponent is one of which each double is its own."""
        return (0, _EXACT - 1) if self.integer else (_LEAST, _GREATEST)


def express_range(bounds: Mapping[str, float], *, integer: bool) -> str | None:
    """An expression for the numbers within bounds; None if none can be written.

    Args:
        bounds: `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, any of them.
        integer: only integers; one may have a fraction of zeros.
    """
    return _express(tuple(bounds.items()), integer)


@lru_cache(maxsize=512)
def _express(bounds: tuple[tuple[str, float], ...], integer: bool) -> str | None:
    lows, highs = list[Limit](), list[Limit]()
    for keyword, bound in bounds:
        limit = Limit(_read(bound), keyword.startswith("exclusive"))
        is_lower = keyword.lower().endswith("minimum")
        limit = _round(limit, is_lower) if integer else limit
        (lows if is_lower else highs).append(limit)
    low = max(lows, key=lambda limit: (limit.value, limit.strict), default=None)
    high = min(highs, key=lambda limit: (limit.value, not limit.strict), default=None)
    kind = _Kind(integer, _EXACT if any(x.strict and x.value for x in lows + highs) else _DIGITS)
    options = _positive(kind, _or_zero(low), high)
    negative = _positive(kind, _or_zero(_negate(high)), _negate(low))
    if negative and (low is None or low.value < 0):
        options.append(f"-({'|'.join(negative)})")
    return join(options)


def _read(bound: float) -> Decimal:
    """A bound, to the last digit; without a sign where it is zero."""
    return Decimal(repr(bound)) if bound else Decimal(0)


def _round(limit: Limit, is_lower: bool) -> Limit:
    """The integer limit that says the same of integers."""
    nearest = limit.value.to_integral_value(ROUND_CEILING if is_lower else ROUND_FLOOR)
    if limit.strict and nearest == limit.value:
        nearest += 1 if is_lower else -1
    return Limit(nearest.copy_abs() if nearest.is_zero() else nearest, strict=False)


def _negate(limit: Limit | None) -> Limit | None:
    if limit is None or limit.value.is_zero():
        return limit
    return replace(limit, value=limit.value.copy_negate())


def _or_zero(low: Limit | None) -> Limit:
    """The lower limit of numbers without a sign."""
    return Limit(Decimal(0)) if low is None or low.value < 0 else low


def _positive(kind: _Kind, low: Limit, high: Limit | None) -> list[str]:
    """Expressions for numbers without a sign."""
    if high is not None and (high.value < low.value or high.value < 0):
        return []
    return _plain(kind, low, high) + _scientific(kind, low, high)


def _plain(kind: _Kind, low: Limit, high: Limit | None) -> list[str]:
    first, last = low.whole, _LONGEST if high is None else min(high.whole, _LONGEST)
    if not kind.integer:
        last = min(last, kind.digits)
    options = list[str | None]()
    edges = {first, last if high is not None and high.whole == last else first}
    for length in sorted(edge for edge in edges if edge <= last):
        below = low if length == low.whole else None
        above = high if high is not None and length == high.whole else None
        tail = _tail(kind, length)
        options.append(express_fixed(length, below, above, tail))
    between = [n for n in range(first + 1, last + 1) if n not in edges]
    if kind.integer:
        options += _group([n for n in between if n <= _EXACT], _ZEROS)
        options += _group([n for n in between if n > _EXACT], "")
    else:
        for n in between:
            options += _group([n], count("[0-9]", kind.digits - n, r"\."))
    return [option for option in options if option is not None]


def _tail(kind: _Kind, length: int) -> int | str:
    """What may stand behind so many digits: so many of a fraction, or this."""
    if kind.integer:
        return _ZEROS if length <= _EXACT else ""
    return kind.digits - length


def _group(lengths: list[int], tail: str) -> list[str]:
    if not lengths:
        return []
    return [f"[1-9][0-9]{{{lengths[0] - 1},{lengths[-1] - 1}}}{tail}"]


def _scientific(kind: _Kind, low: Limit, high: Limit | None) -> list[str]:
    first, last = kind.exponents
    tail = _ZEROS if kind.integer else kind.digits - 1
    if high is not None and high.value == 0:
        return []
    edges = dict[int, tuple[Limit | None, Limit | None]]()
    if low.value > 0:
        edges[low.exponent] = _scale(kind, low, is_lower=True), None
        first = max(first, low.exponent)
    if high is not None:
        below = edges.get(high.exponent, (None, None))[0]
        edges[high.exponent] = below, _scale(kind, high, is_lower=False)
        last = min(last, high.exponent)
    options = list[str]()
    for exponent, (below, above) in edges.items():
        if first <= exponent <= last and _is_between(below, above):
            mantissa = express_fixed(1, below, above, tail, zero=False)
            if mantissa is not None:
                options.append(f"({mantissa})[eE]{express_exponents(exponent, exponent)}")
    first, last = first + (first in edges), last - (last in edges)
    if first <= last:
        mantissa = express_fixed(1, None, None, tail, zero=False)
        options.append(f"({mantissa})[eE]{express_exponents(first, last)}")
    return options


def _scale(kind: _Kind, limit: Limit, *, is_lower: bool) -> Limit:
    """The mantissa of a limit in its scientific spelling."""
    mantissa = Limit(limit.value.scaleb(-limit.exponent), limit.strict)
    return _round(mantissa, is_lower) if kind.integer else mantissa


def _is_between(low: Limit | None, high: Limit | None) -> bool:
    """Is there a mantissa between the limits, which may have been rounded?"""
    return low is None or (low.whole == 1 and (high is None or low.value <= high.value))
