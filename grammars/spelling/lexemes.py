"""Lexemes that llguidance enforces with its own JSON Schema reader, and the texts that they
allow."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, inf

from grammars.ir.nodes import Language
from grammars.regex.automaton import compile_regexes
from grammars.regex.deterministic import (
    DeterministicState,
    determinize,
    intersect_automata,
    minimize,
)
from grammars.regex.expressions import complement, intersect
from grammars.regex.multiples import divide
from grammars.regex.ranges import NUMBER, express_range
from grammars.regex.reader import read
from grammars.schema.nodes import LARGEST_MULTIPLE, Number, String
from grammars.schema.numbers import count_multiples, find_step, has_no_number, list_steps

WHOLE_TAIL = r"\.0{1,15}"
"""A regular expression for the text that may follow a whole number."""

_DECIMAL = re.compile(r"-?[0-9]*(\.[0-9]*)?")


@dataclass(frozen=True)
class Multiples(Language):
    """Decimal multiples within bounds, as llguidance writes them: whole, or with all decimal places
    of the divisor.

    Args:
        node: a number with `multipleOf`.
    """

    node: Number

    def automaton(self, max_states: int) -> list[DeterministicState]:
        bounds = {key: bound for key, bound in self.node.bounds.items() if key != "multipleOf"}
        spoken = " ".join(bounds).lower()
        if "minimum" not in spoken:
            bounds["minimum"] = -LARGEST_MULTIPLE
        if "maximum" not in spoken:
            bounds["maximum"] = LARGEST_MULTIPLE
        within = express_range(bounds, integer=self.node.integer)
        if within is None:
            return []
        numbers = read(within)
        if not self.node.integer:
            numbers = intersect((numbers, complement(read(r"-0(\.0*)?"))))
        multiples = divide(int(self._divisor * 10**self.places), self.places, max_states)
        return minimize(intersect_automata(multiples, determinize(numbers, max_states), max_states))

    def begins(self, text: str) -> bool:
        return _DECIMAL.fullmatch(text) is not None

    def accepts(self, text: str) -> bool:
        if not text.lstrip("-") or text.endswith("."):
            return False
        number = Fraction(text)
        low, high = self._limits(len(text), negative=False)
        return number % self._divisor == 0 and low <= number * 10 ** len(text) <= high

    def extend(self, text: str) -> str | None:
        negative = text.startswith("-")
        options = self._continue(text[negative:], negative=negative)
        found = min((o for o in options if o is not None), key=len, default=None)
        if not text and found is None:
            rest = self.extend("-")
            return None if rest is None else "-" + rest
        if found is None and negative and self.node.integer:  # `-0` is an integer, too
            return {"-": "0", "-0": ""}.get(text)
        return found

    def _continue(self, digits: str, *, negative: bool) -> Iterator[str | None]:
        """Endings of these digits: for each number of further digits, the smallest number that
        fits."""
        whole, point, fraction = digits.partition(".")
        places = self.places
        if point:
            left = places - len(fraction)
            if left >= 0:
                least = int(whole + fraction) * 10**left
                found = self._find(least, least + 10**left - 1, places, negative)
                yield None if found is None else _point(found, places)[len(digits) :]
            return
        for more in range(1 if whole == "0" else 17):
            if whole:
                low = int(whole) * 10**more
                high = low + 10**more - 1
            elif more:
                low = 10 ** (more - 1) if more > 1 else 0
                high = 10**more - 1
            else:
                continue
            for shown in {0, places}:
                span = low * 10**shown, (high + 1) * 10**shown - 1
                found = self._find(*span, shown, negative)
                yield None if found is None else _point(found, shown)[len(digits) :]

    @property
    def _divisor(self) -> Fraction:
        return Fraction(repr(self.node.bounds["multipleOf"]))

    @property
    def places(self) -> int:
        """The decimal places of the divisor."""
        if self.node.integer:
            return 0
        return next(n for n in range(400) if (self._divisor * 10**n).denominator == 1)

    def _find(self, low: int, high: int, places: int, negative: bool) -> int | None:
        """Returns the smallest n from `low` to `high` such that n / 10^places, with this sign,
        fits."""
        least, greatest = self._limits(places, negative)
        step = (self._divisor * 10**places).numerator
        found = -(-max(low, least, int(negative)) // step) * step
        return found if found <= min(high, greatest) else None

    def _limits(self, places: int, negative: bool) -> tuple[int, int]:
        """Returns the smallest and the largest n within the bounds."""
        low, high = Fraction(-LARGEST_MULTIPLE), Fraction(LARGEST_MULTIPLE)
        spoken = " ".join(self.node.bounds).lower()
        lows, highs = list[int](), list[int]()
        scale = 10**places
        if "minimum" not in spoken:
            lows.append(floor(low * scale))
        if "maximum" not in spoken:
            highs.append(ceil(high * scale))
        for keyword, bound in self.node.bounds.items():
            value = Fraction(repr(bound)) * scale
            match keyword:
                case "minimum":
                    lows.append(ceil(value))
                case "exclusiveMinimum":
                    lows.append(floor(value) + 1)
                case "maximum":
                    highs.append(floor(value))
                case "exclusiveMaximum":
                    highs.append(ceil(value) - 1)
                case _:
                    pass
        low_n, high_n = max(lows), min(highs)
        return (-high_n, -low_n) if negative else (low_n, high_n)


def find_whole(node: Number) -> Number | None:
    """Returns the same multiples as integers; None if some are not integers."""
    divisor = node.bounds["multipleOf"]
    if node.integer or float(divisor).is_integer():
        return replace(node, integer=True)
    return None


_BEYOND = Fraction(10**300)  # larger than all multiples, but still a double


def tighten(node: Number) -> Number:
    """Returns the same multiples, with bounds that are multiples. llguidance would refuse the
    multiple next to a bound that has more decimals than the multiples."""
    step = find_step(node)
    assert step is not None, "no multiples"
    bounds: dict[str, float] = {"multipleOf": node.bounds["multipleOf"]}
    for keyword, count in zip(("minimum", "maximum"), count_multiples(node, step), strict=True):
        if count not in (-inf, inf):
            bound = min(max(int(count) * step, -_BEYOND), _BEYOND)
            bounds[keyword] = int(bound) if node.integer else float(bound)
    return replace(node, bounds=bounds)


def divide_by_places(node: Number) -> list[Number]:
    """Splits multiples by their decimal places: one, two, and so on, up to those of the divisor.
    Each part includes the whole numbers. Parts without a number within the bounds are left out."""
    steps = list_steps(node.bounds["multipleOf"])
    parts = [replace(node, bounds={**node.bounds, "multipleOf": step}) for step in steps]
    return [part for part in parts if not has_no_number(part)]


def _point(number: int, places: int) -> str:
    """Writes a number with this many decimal places."""
    whole, fraction = divmod(number, 10**places)
    return f"{whole}.{fraction:0{places}}" if places else str(whole)


def fits_number(text: str, node: Number) -> bool:
    """Returns whether the text is a number of the node."""
    if "multipleOf" in node.bounds:
        return Multiples(node).accepts(text)
    regex: str | None = NUMBER
    if node.bounds or node.integer:
        regex = express_range(node.bounds, integer=node.integer)
    automaton = None if regex is None else compile_regexes((regex,))
    return automaton is None or automaton.accepts(text)


def fits_string(text: str, node: String) -> bool:
    """Returns whether the text is a string of the node, or if the node's pattern cannot be
    parsed."""
    if len(text) < node.min_length:
        return False
    if node.max_length is not None and len(text) > node.max_length:
        return False
    automaton = None if node.pattern is None else compile_regexes((node.pattern,))
    return automaton is None or automaton.accepts(text)
