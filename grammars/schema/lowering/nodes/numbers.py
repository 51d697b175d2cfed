"""Numbers of a flat schema: which bounds and multiples a mask enforces."""

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import inf, lcm

from grammars.schema.json_values import Json
from grammars.schema.lowering.findings import Findings
from grammars.schema.lowering.keywords import MAX_REMAINDERS, read_bounds
from grammars.schema.nodes import LARGEST_MULTIPLE, Number
from grammars.schema.numbers import count_multiples, has_no_number

_BITS = 63
"""Of integers without bounds, in the mask, besides the sign. Most clients read integers of 64 bits,
and a model that repeats a digit has to come to an end."""
_BITS_OF_FORMATS = {"uint64": 64, "uint": 64, "int128": 127, "uint128": 128}
"""Larger integers, as generators name them (schemars, for Rust)."""
_POWER_OF_TEN = re.compile("1(0{1,10})")  # the validator divides by no smaller numbers
_NO_LARGER = f"no multiples beyond {LARGEST_MULTIPLE:,}"


class NumberLowering:
    """Lowers the numbers of one document."""

    def __init__(self, findings: Findings):
        self._findings = findings
        self._divisors = 1  # the least common multiple of those that the mask enforces

    def lower(self, flat: Mapping[str, Json], pointer: str, *, integer: bool) -> Number:
        bounds = read_bounds(flat)
        divisor = Fraction(repr(bounds.pop("multipleOf", 1)))
        if "multipleOf" in flat:
            integer = integer or divisor.denominator == 1
        node = Number(integer, bounds)
        if integer:
            # Every integer is a multiple of 0.5, and each that is one of 2.5 is one of 5.
            node = self._limit_multiples(node, divisor.numerator, pointer)
            if "multipleOf" not in node.bounds:
                bits = _BITS_OF_FORMATS.get(str(flat.get("format")), _BITS)
                node = replace(node, mask_bounds=_find_mask_bounds(node, bits))
        elif "multipleOf" in flat:
            node = self._limit_places(node, divisor, pointer)
        if node.mask_bounds:
            shown = ", ".join(f"{name} {bound}" for name, bound in node.mask_bounds.items())
            self._findings.narrow(pointer, "type", f"{shown} in the mask")
        return node

    def _limit_multiples(self, node: Number, divisor: int, pointer: str) -> Number:
        """Returns the multiples of the divisor, if a mask can follow them. A mask follows the
        remainders of all numbers that may stand at one place of a value, and those of alternatives
        multiply. So the divisors of the whole document are limited together."""
        if divisor == 1:
            return node
        multiples = replace(node, bounds={**node.bounds, "multipleOf": divisor})
        within = _keep_small(multiples)
        together = lcm(self._divisors, divisor)
        if together > MAX_REMAINDERS:
            reason = "too many remainders for a mask, alone or with others in this schema"
            self._findings.check(pointer, "multipleOf", reason)
            return node
        if has_no_number(within) and not has_no_number(multiples):
            reason = "the bounds leave too many digits for a mask"
            self._findings.check(pointer, "multipleOf", reason)
            return node
        self._divisors = together
        if within != multiples:
            self._findings.narrow(pointer, "multipleOf", _NO_LARGER)
        return within

    def _limit_places(self, node: Number, divisor: Fraction, pointer: str) -> Number:
        """Returns the multiples of 0.1, 0.01 and so on; those of other divisors are checked."""
        power = _POWER_OF_TEN.fullmatch(str(1 / divisor))
        within = replace(_keep_small(node), places=len(power[1]) if power else None)
        if power is None or has_no_number(within):
            self._findings.check(pointer, "multipleOf", "has decimals")
            return node
        if within.bounds != node.bounds:
            self._findings.narrow(pointer, "multipleOf", _NO_LARGER)
        return within


def _find_mask_bounds(node: Number, bits: int) -> dict[str, float]:
    """Returns the bounds of this many bits on each side where an integer has none; none if its
    other bound is beyond them."""
    least, greatest = -(2**bits), 2**bits - 1
    first, last = count_multiples(node)
    bounds: dict[str, float] = {}
    if first == -inf and (last == inf or least <= last <= greatest):
        bounds["minimum"] = least
    if last == inf and (first == -inf or least <= first <= greatest):
        bounds["maximum"] = greatest
    return bounds


def _keep_small(node: Number) -> Number:
    """Limits the digits to those that a double holds: llguidance and others divide doubles."""
    bounds = dict(node.bounds)
    least = max(bounds.get("minimum", -inf), bounds.get("exclusiveMinimum", -inf))
    greatest = min(bounds.get("maximum", inf), bounds.get("exclusiveMaximum", inf))
    if least < -LARGEST_MULTIPLE:
        bounds.pop("exclusiveMinimum", None)
        bounds["minimum"] = -LARGEST_MULTIPLE
    if greatest > LARGEST_MULTIPLE:
        bounds.pop("exclusiveMaximum", None)
        bounds["maximum"] = LARGEST_MULTIPLE
    return replace(node, bounds=bounds)
