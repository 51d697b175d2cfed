"""Decimal numbers within bounds, as regular expressions over their digits.

Each expression speaks of one bound and of plain decimals (`-?digits[.digits]`, no exponent, no
superfluous zero in front); `bound_regexes` gives the parts whose intersection is the range.
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_MORE = r"(\.[0-9]+)?"
INTEGER = "-?(0|[1-9][0-9]{0,18})"
DECIMAL = INTEGER + r"(\.[0-9]{1,30})?"
EXACT = "-?[0-9.]{1,16}"
"""15 digits: decimals of that length keep their order when they become doubles."""


def bound_regexes(bounds: Mapping[str, float], *, integer: bool) -> list[str]:
    """Expressions that a number has to match, all of them.

    Args:
        bounds: `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, any of them.
        integer: only integers.
    """
    regexes = [INTEGER if integer else DECIMAL]
    if not integer and all(abs(bound) < 10**14 for bound in bounds.values()):
        regexes.append(EXACT)
    for keyword, bound in bounds.items():
        strict = keyword.startswith("exclusive")
        value = Decimal(repr(bound))
        lower = keyword.lower().endswith("minimum")
        if integer:
            value, strict = _round(value, lower, strict), False
        spell = _at_least if lower else _at_most
        regexes.append(spell(value, strict, "" if integer else _MORE))
    return regexes


def _round(bound: Decimal, lower: bool, strict: bool) -> Decimal:
    """The integer bound that says the same of integers.

    Their expressions then speak of no fraction: where the mask of a token that follows a number is
    computed, llguidance fails on one that could go on alone but not in the intersection.
    """
    nearest = bound.to_integral_value(ROUND_CEILING if lower else ROUND_FLOOR)
    if strict and nearest == bound:
        return nearest + (1 if lower else -1)
    return nearest


def _at_least(bound: Decimal, strict: bool, more: str) -> str:
    if bound < 0:
        return f"[0-9].*|-({_up_to(-bound, strict, more)})"
    return _from(bound, strict, more)


def _at_most(bound: Decimal, strict: bool, more: str) -> str:
    if bound < 0:
        return f"-({_from(-bound, strict, more)})"
    if bound == 0 and strict:
        return f"-({_from(bound, strict, more)})"
    return f"-.*|{_up_to(bound, strict, more)}"


def _digits(bound: Decimal) -> tuple[str, str]:
    """Integer and fraction digits, without superfluous zeros."""
    whole, _, fraction = format(bound, "f").partition(".")
    return whole.lstrip("0") or "0", fraction.rstrip("0")


def _from(bound: Decimal, strict: bool, more: str) -> str:
    """Non-negative decimals that are `bound` or more."""
    whole, fraction = _digits(bound)
    options = [f"[1-9][0-9]{{{len(whole)},}}{more}"]
    for i, digit in enumerate(whole):
        if digit != "9":
            rest = len(whole) - i - 1
            options.append(f"{whole[:i]}[{int(digit) + 1}-9][0-9]{{{rest}}}{more}")
    for i, digit in enumerate(fraction):
        if digit != "9":
            options.append(rf"{whole}\.{fraction[:i]}[{int(digit) + 1}-9][0-9]*")
    if strict:
        options.append(rf"{whole}\.{fraction}[0-9]*[1-9][0-9]*")
    else:
        options.append(rf"{whole}\.{fraction}[0-9]*" if fraction else whole + more)
    return "|".join(options)


def _up_to(bound: Decimal, strict: bool, more: str) -> str:
    """Non-negative decimals that are `bound` or less."""
    whole, fraction = _digits(bound)
    options: list[str] = []
    if len(whole) > 1:
        options.append(f"(0|[1-9][0-9]{{0,{len(whole) - 2}}}){more}")
    for i, digit in enumerate(whole):
        lowest = 1 if i == 0 and len(whole) > 1 else 0
        if int(digit) > lowest:
            rest = len(whole) - i - 1
            options.append(f"{whole[:i]}[{lowest}-{int(digit) - 1}][0-9]{{{rest}}}{more}")
    for i, digit in enumerate(fraction):
        options.append(rf"{whole}\.{fraction[:i]}" if i else whole)
        if digit != "0":
            options.append(rf"{whole}\.{fraction[:i]}[0-{int(digit) - 1}][0-9]*")
    if not strict:
        options.append(
            rf"{whole}\.{fraction}0*" if fraction else whole + more.replace("[0-9]", "0")
        )
    return "|".join(options) or "[^0-9]"
