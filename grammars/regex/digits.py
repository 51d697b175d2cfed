"""Digits between two limits, as regular expressions in which nothing leads astray."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias


@dataclass(frozen=True)
class Limit:
    """A bound; `strict`: it is excluded itself."""

    value: Decimal
    strict: bool = False

    @property
    def digits(self) -> tuple[str, str]:
        """Integer and fraction digits, without superfluous zeros."""
        whole, _, fraction = format(self.value, "f").partition(".")
        return whole.lstrip("0") or "0", fraction.rstrip("0")

    @property
    def whole(self) -> int:
        """How many integer digits it has."""
        return len(self.digits[0])

    @property
    def exponent(self) -> int:
        """That of its scientific spelling."""
        return self.value.adjusted()


@dataclass(frozen=True)
class _Rest:
    """The digits of a limit that are still to come, those of the fraction last."""

    digits: str
    strict: bool

    @classmethod
    def of(cls, limit: Limit | None) -> "_Rest | None":
        return None if limit is None else cls("".join(limit.digits), limit.strict)

    @property
    def is_below_all(self) -> bool:
        """As a lower limit: is there nothing left to hold?"""
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


def join(options: Iterable[str | None]) -> str | None:
    """Any of the expressions that there are; None if there are none."""
    found = dict.fromkeys(option for option in options if option is not None)
    return "|".join(found) if found else None


def count(what: str, most: int, before: str = "") -> str:
    """So many at most, behind a text that stands only before some."""
    return f"({before}{what}{{1,{most}}})?" if most > 0 else ""


def express_fixed(
    length: int,
    low: Limit | None,
    high: Limit | None,
    tail: int | str,
    *,
    zero: bool = True,
) -> str | None:
    """Numbers of so many integer digits within limits of as many.

    Args:
        length: how many integer digits they have.
        low: the least; None: any.
        high: the greatest; None: any.
        tail: so many digits of a fraction, or this behind integer limits.
        zero: may a single integer digit be zero?
    """
    least = 0 if length == 1 and zero else 1
    return _integer(length, _Rest.of(low), _Rest.of(high), tail, least)


def _integer(
    length: int, low: _Rest | None, high: _Rest | None, tail: int | str, least: int = 0
) -> str | None:
    """The digits in front of the point, and what follows them."""
    if not length:
        if isinstance(tail, str):
            return tail
        return _fraction(low, high, tail)
    if low is None and high is None:
        body = f"[{least}-9]" + ("" if length == 1 else f"[0-9]{{{length - 1}}}")
        return body + (tail if isinstance(tail, str) else count("[0-9]", tail, r"\."))

    def go_on(low: _Rest | None, high: _Rest | None) -> str | None:
        return _integer(length - 1, low, high, tail)

    return join(_branch(low, high, least, go_on))


def _fraction(low: _Rest | None, high: _Rest | None, most: int) -> str | None:
    """A point and digits, or nothing where the number may end."""
    digits = _digits(low, high, most, is_open=False)
    may_end = _may_end(low, high)
    if digits is None:
        return "" if may_end else None
    return rf"(\.({digits}))?" if may_end else rf"\.({digits})"


def _may_end(low: _Rest | None, high: _Rest | None) -> bool:
    """May nothing, which is as much as zeros, come now?"""
    is_below = high is None or not high.is_zero or not high.strict
    return is_below and (low is None or low.is_below_all)


def _digits(
    low: _Rest | None, high: _Rest | None, most: int, *, is_open: bool = True
) -> str | None:
    """One digit of a fraction or more; `is_open`: or none, where the number may end."""
    may_end = is_open and _may_end(low, high)
    if most == 0:
        return "" if may_end else None
    if low is None and (high is None or (high.is_zero and not high.strict)):
        return f"{'0' if high else '[0-9]'}{{{int(not is_open)},{most}}}"

    def go_on(low: _Rest | None, high: _Rest | None) -> str | None:
        return _digits(low, high, most - 1)

    found = join(_branch(low, high, 0, go_on))
    if found is None:
        return "" if may_end else None
    return f"({found})?" if may_end else found


def _branch(low: _Rest | None, high: _Rest | None, least: int, go_on: _GoOn) -> list[str | None]:
    """A digit and what follows it: as in one of the limits, or free between them."""
    low = None if low and low.is_below_all else low
    bottom, top = least, 9
    options = list[str | None]()
    if low and high and low.first == high.first:
        return [_follow(low.first, low.first, go_on(low.next, high.next))]
    if low and low.first >= least:
        options.append(_follow(low.first, low.first, go_on(low.next, None)))
        bottom = low.first + 1
    if high and high.first >= least:
        options.append(_follow(high.first, high.first, go_on(None, high.next)))
        top = high.first - 1
    if bottom <= top:
        options.append(_follow(bottom, top, go_on(None, None)))
    return options


def _follow(first: int, last: int, rest: str | None) -> str | None:
    if rest is None:
        return None
    digit = str(first) if first == last else f"[{first}-{last}]"
    return digit + (f"({rest})" if "|" in rest else rest)


def express_exponents(first: int, last: int) -> str:
    """The numbers from one to the other, as exponents: with a sign or zeros in front."""
    options = list[str | None]()
    if last >= 0:
        options.append(rf"\+?({_express_numbers(max(first, 0), last)})")
    if first < 0:
        options.append(f"-({_express_numbers(max(-last, 1), -first)})")
    return f"({join(options)})"


def _express_numbers(first: int, last: int) -> str | None:
    """With one zero in front of a single digit."""
    options = list[str | None]()
    for length in range(len(str(first)), len(str(last)) + 1):
        low = Limit(Decimal(first)) if length == len(str(first)) else None
        high = Limit(Decimal(last)) if length == len(str(last)) else None
        zero = "0?" if length == 1 else ""
        fixed = express_fixed(length, low, high, "")
        options.append(None if fixed is None else f"{zero}({fixed})")
    return join(options)
