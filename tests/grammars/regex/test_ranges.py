"""Bounds of numbers: the expressions agree with arithmetic, and nothing that they begin is dead."""

import json
import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grammars.regex.automaton import compile_regexes
from grammars.regex.ranges import express_range

KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
decimals = st.decimals(-2000, 2000, places=3) | st.integers(-30, 30).map(Decimal)
exponents = st.integers(-12, 12) | st.integers(-300, 307)
doubles = st.floats(allow_nan=False, allow_infinity=False)
limits = doubles | st.integers(-(10**25), 10**25) | st.integers(-200, 200)
bounds = st.dictionaries(st.sampled_from(KEYWORDS), limits)


def holds(value: Decimal | float, keyword: str, bound: Decimal | float) -> bool:
    match keyword:
        case "minimum":
            return value >= bound
        case "maximum":
            return value <= bound
        case "exclusiveMinimum":
            return value > bound
        case _:
            return value < bound


def matches(text: str, bounds: dict[str, float], *, integer: bool) -> bool:
    regex = express_range(bounds, integer=integer)
    return regex is not None and re.fullmatch(regex, text) is not None


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
    matched = matches(written, {keyword: number}, integer=False)
    assert matched == holds(value, keyword, bound) or written.startswith("-0.0")


@given(
    st.decimals(1, 9, places=3) | st.integers(1, 9).map(Decimal),
    exponents,
    st.sampled_from(KEYWORDS),
    st.decimals(-10, 10, places=2),
    exponents,
    st.booleans(),
)
@example(Decimal(1), -6, "minimum", Decimal(0), 0, False)
@example(Decimal(5), 3, "maximum", Decimal(5), 3, False)
@example(Decimal(5), 3, "exclusiveMaximum", Decimal(5), 3, False)
def test_exponents_are_within_the_bounds_too(
    mantissa: Decimal, exponent: int, keyword: str, bound: Decimal, power: int, negative: bool
) -> None:
    limit = float(bound.scaleb(power))
    value = mantissa.scaleb(exponent) * (-1 if negative else 1)
    for written in (f"{mantissa}e{exponent:+03}", f"{mantissa}E{exponent:+}"):
        written = "-" * negative + written
        matched = matches(written, {keyword: limit}, integer=False)
        assert matched == holds(value, keyword, Decimal(repr(limit)))


@given(bounds, st.booleans(), doubles)
@example({"exclusiveMaximum": 6.707437880706069e16}, True, 6.707437880706069e16)
def test_doubles_as_json_writes_them(bounds: dict[str, float], integer: bool, value: float) -> None:
    if matches(json.dumps(value), bounds, integer=integer):
        assert all(holds(value, keyword, bound) for keyword, bound in bounds.items())
        assert not integer or value == int(value)


@given(bounds, st.booleans(), st.data())
def test_what_is_begun_can_be_ended_and_fits(
    bounds: dict[str, float], integer: bool, data: st.DataObject
) -> None:
    regex = express_range(bounds, integer=integer)
    if regex is None:
        return
    automaton = compile_regexes((regex,))
    assert automaton is not None
    text = ""
    for _ in range(data.draw(st.integers(0, 30))):
        following = [c for c in "-.0123456789eE+" if automaton.extend(text + c) is not None]
        text += data.draw(st.sampled_from(following)) if following else ""
    rest = automaton.extend(text)
    assert rest is not None
    value = json.loads(text + rest)
    assert all(holds(value, keyword, bound) for keyword, bound in bounds.items())
    assert abs(value) < 1e308
    assert not integer or isinstance(value, int)


@given(bounds, st.integers(1, 6), st.decimals(-2000, 2000, places=4) | decimals)
@example({"exclusiveMinimum": 0}, 2, Decimal("0.01"))
@example({"maximum": 9.995}, 2, Decimal("9.99"))
def test_numbers_have_no_more_digits_behind_the_point(
    bounds: dict[str, float], places: int, value: Decimal
) -> None:
    regex = express_range(bounds, integer=False, places=places)
    written = format(value.normalize(), "f")
    matched = regex is not None and re.fullmatch(regex, written) is not None
    fits = all(holds(value, keyword, bound) for keyword, bound in bounds.items())
    assert matched == (fits and value == round(value, places)) or written == "-0"


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12), st.integers(0, 10**12))
def test_integers_between_two_bounds(value: int, low: int, width: int) -> None:
    bounds: dict[str, float] = {"minimum": low, "maximum": low + width}
    assert matches(str(value), bounds, integer=True) == (low <= value <= low + width)


@pytest.mark.parametrize(
    ("bounds", "written", "fits"),
    [
        ({}, "0", True),
        ({}, "-17", True),
        ({}, "017", False),
        ({}, "2.0", False),
        ({}, "1e3", False),
        ({}, "2.5", False),
        ({}, "18446744073709551615", True),  # the largest of 64 bits without a sign
        ({}, "9" * 80, True),
        ({}, "9" * 81, False),
        ({"maximum": 2**63 - 1}, "9223372036854775807", True),
        ({"maximum": 2**63 - 1}, "9223372036854775808", False),
        ({"minimum": 10**20 + 1}, "1" + "0" * 19 + "1", True),
        ({"minimum": 10**20 + 1}, "1" + "0" * 20, False),
        ({"exclusiveMaximum": 99.5}, "99", True),
        ({"exclusiveMaximum": 99.0}, "99", False),
        ({"minimum": 1.8e19}, "18000000000000000000", True),
    ],
)
def test_integers_are_digits(bounds: dict[str, float], written: str, fits: bool) -> None:
    assert matches(written, bounds, integer=True) == fits


def test_an_integer_has_a_short_expression() -> None:
    regex = express_range({"minimum": 1, "maximum": 100}, integer=True)
    assert regex is not None
    assert len(regex) < 40


@pytest.mark.parametrize("written", ["9223372036854775808", "9223372036854775807.0", "9.3e18"])
def test_a_bound_that_is_no_double(written: str) -> None:
    bounds: dict[str, float] = {"maximum": 2**63 - 1}
    assert matches("9223372036854775807", bounds, integer=False)
    assert matches("9.223372036854774e18", bounds, integer=False)
    assert not matches(written, bounds, integer=False)


def test_digits_are_bounded_whatever_the_bounds_are() -> None:
    assert not matches("0." + "4" * 40, {"minimum": 0}, integer=False)
    assert not matches("9" * 309, {"minimum": 10**17}, integer=False)
    assert not matches("1e308", {"minimum": 0}, integer=False)
    assert not matches("1e-301", {"exclusiveMinimum": 0}, integer=False)


def test_bounds_that_no_spelling_fits() -> None:
    assert express_range({"minimum": 10**308}, integer=True) is None
    assert express_range({"minimum": 1.0, "exclusiveMaximum": 1.0}, integer=False) is None
    assert express_range({"exclusiveMaximum": 0.0}, integer=False) is not None
