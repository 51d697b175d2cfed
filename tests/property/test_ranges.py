"""Bounds of numbers: the expressions agree with arithmetic."""

import re
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from grammars.ranges import bound_regexes

KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
decimals = st.decimals(-2000, 2000, places=3) | st.integers(-30, 30).map(Decimal)


def holds(value: Decimal, keyword: str, bound: Decimal) -> bool:
    match keyword:
        case "minimum":
            return value >= bound
        case "maximum":
            return value <= bound
        case "exclusiveMinimum":
            return value > bound
        case _:
            return value < bound


@given(decimals, st.sampled_from(KEYWORDS), decimals, st.integers(0, 4))
@example(Decimal("0"), "minimum", Decimal("0"), 0)
@example(Decimal("10"), "exclusiveMaximum", Decimal("10"), 2)
@example(Decimal("-0.5"), "maximum", Decimal("0"), 0)
def test_bounds_are_those_of_arithmetic(
    value: Decimal, keyword: str, bound: Decimal, zeros: int
) -> None:
    number = float(bound) if bound % 1 else int(bound)
    written = format(value, "f")
    if "." in written:
        written = written.rstrip("0").rstrip(".")
    written = "0" if written == "-0" else written
    if zeros and "." not in written:
        written += "." + "0" * zeros
    regexes = bound_regexes({keyword: number}, integer=False)
    matched = all(re.fullmatch(r, written) for r in regexes)
    assert matched == holds(value, keyword, bound) or written.startswith("-0.0")


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12), st.integers(0, 10**12))
def test_integers_between_two_bounds(value: int, low: int, width: int) -> None:
    bounds = {"minimum": low, "maximum": low + width}
    matched = all(re.fullmatch(r, str(value)) for r in bound_regexes(bounds, integer=True))
    assert matched == (low <= value <= low + width)


def test_digits_are_bounded_whatever_the_bounds_are() -> None:
    regexes = bound_regexes({"minimum": 0}, integer=False)
    assert not all(re.fullmatch(r, "0." + "4" * 40) for r in regexes)
    regexes = bound_regexes({"minimum": 10**17}, integer=False)
    assert not all(re.fullmatch(r, "9" * 20) for r in regexes)
