"""Decimal numbers within bounds, as regular expressions over their digits.

Each expression speaks of one bound and of plain decimals (`-?digits[.digits]`, no exponent, no
superfluous zero in front); `bound_regexes` gives the parts whose intersection is the range.
"""

from collections.abc import Mapping
from decimal import Decimal

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
        regexes.append(_at_least(value, strict) if lower else _at_most(value, strict))
    return regexes


def _at_least(bound: Decimal, strict: bool) -> str:
    if bound < 0:
        return f"[0-9].*|-({_up_to(-bound, strict)})"
    return _from(bound, strict)


def _at_most(bound: Decimal, strict: bool) -> str:
    if bound < 0:
        return f"-({_from(-bound, strict)})"
    if bound == 0 and strict:
        return f"-({_from(bound, strict)})"
    return f"-.*|{_up_to(bound, strict)}"


def _digits(bound: Decimal) -> tuple[str, str]:
    """Integer and fraction digits, without superfluous zeros."""
    whole, _, fraction = format(bound, "f").partition(".")
    return whole.lstrip("0") or "0", fraction.rstrip("0")


def _from(bound: Decimal, strict: bool) -> str:
    """Non-negative decimals that are `bound` or more."""
    whole, fraction = _digits(bound)
    options = [f"[1-9][0-9]{{{len(whole)},}}{_MORE}"]
    for i, digit in enumerate(whole):
        if digit != "9":
            rest = len(whole) - i - 1
            options.append(f"{whole[:i]}[{int(digit) + 1}-9][0-9]{{{rest}}}{_MORE}")
    for i, digit in enumerate(fraction):
        if digit != "9":
            options.append(rf"{whole}\.{fraction[:i]}[{int(digit) + 1}-9][0-9]*")
    if strict:
        options.append(rf"{whole}\.{fraction}[0-9]*[1-9][0-9]*")
    else:
        options.append(rf"{whole}\.{fraction}[0-9]*" if fraction else whole + _MORE)
    return "|".join(options)


def _up_to(bound: Decimal, strict: bool) -> str:
    """Non-negative decimals that are `bound` or less."""
    whole, fraction = _digits(bound)
    options: list[str] = []
    if len(whole) > 1:
        options.append(f"(0|[1-9][0-9]{{0,{len(whole) - 2}}}){_MORE}")
    for i, digit in enumerate(whole):
        lowest = 1 if i == 0 and len(whole) > 1 else 0
        if int(digit) > lowest:
            rest = len(whole) - i - 1
            options.append(f"{whole[:i]}[{lowest}-{int(digit) - 1}][0-9]{{{rest}}}{_MORE}")
    for i, digit in enumerate(fraction):
        options.append(rf"{whole}\.{fraction[:i]}" if i else whole)
        if digit != "0":
            options.append(rf"{whole}\.{fraction[:i]}[0-{int(digit) - 1}][0-9]*")
    if not strict:
        options.append(rf"{whole}\.{fraction}0*" if fraction else rf"{whole}(\.0+)?")
    return "|".join(options) or "[^0-9]"
