"""Numbers as a schema means them: in JSON, 2.0 and 2 are the same number, in Python they differ.

If a schema allows an integer, `2.0` becomes 2; if it lists 1.0, `1` becomes 1.0. Nothing is
rounded: a float becomes exactly the integer that it is.
"""

from collections.abc import Mapping, Sequence
from math import ceil, floor, inf
from operator import ge, gt, is_, le, lt
from typing import TypeAlias, cast

from grammars.regex.ranges import NUMBER, express_range
from grammars.schema.json_values import Json
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Node,
    Null,
    Number,
    Object,
    Schema,
    String,
    are_same,
    flatten,
)

Reading: TypeAlias = tuple[Json, bool]
"""A value, and whether it fits."""

_COMPARISONS = {"minimum": ge, "maximum": le, "exclusiveMinimum": gt, "exclusiveMaximum": lt}
_TYPES: dict[type[Node], type] = {String: str, Boolean: bool, Null: type(None)}


def normalise_numbers(value: Json, schema: Schema) -> Json:
    """Returns the value, with its numbers as the schema means them."""
    try:
        return _Reader(schema.definitions).read(value, schema.node)[0]
    except RecursionError:  # values of this depth are not validated, either
        return value


def are_equal(a: Json, b: Json) -> bool:
    """Returns whether both are the same JSON value: 1 and 1.0 are, 1 and true are not."""
    match a, b:
        case list(), list():
            x, y = cast(list[Json], a), cast(list[Json], b)
            return len(x) == len(y) and all(map(are_equal, x, y))
        case dict(), dict():
            m, n = cast(dict[str, Json], a), cast(dict[str, Json], b)
            return m.keys() == n.keys() and all(are_equal(m[key], n[key]) for key in m)
        case _:
            if is_number(a) and is_number(b):
                return a == b
            return are_same(a, b)


def find_whole(value: Json) -> int | None:
    """Returns the integer that a float is; None if it is not whole."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def is_number(value: Json) -> bool:
    """Returns whether the value is a JSON number. (In Python, booleans are integers.)"""
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Reader:
    """Converts values to what nodes mean, as far as they fit."""

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions
        self._known: dict[tuple[int, int], Reading] = {}

    def read(self, value: Json, node: Node) -> Reading:
        """Reads the value as the first branch that keeps it, or else as the first that it fits."""
        key = id(value), id(node)
        if key not in self._known:
            self._known[key] = self._choose(value, node)
        return self._known[key]

    def _choose(self, value: Json, node: Node) -> Reading:
        others = list[Reading]()
        for branch in flatten(node, self._definitions):
            found = self._read(value, branch)
            if found is None:
                continue
            reading, fits = found
            if fits and reading is value:
                return found
            others.append(found)
        for reading, fits in others:
            if fits:
                return reading, True
        if len(others) == 1:  # it does not fit, but only one branch is possible
            return others[0]
        return value, False

    def _read(self, value: Json, node: Flat) -> Reading | None:
        """Reads the value as this type; None if it has another type."""
        match node:
            case AnyValue():
                return value, True
            case Constant(values):
                return _pick(value, values)
            case Number():
                return _read_number(value, node)
            case String() | Boolean() | Null():
                if isinstance(value, _TYPES[type(node)]):
                    return value, True
                return None
            case Array() if type(value) is list:
                return self._read_array(cast(list[Json], value), node)
            case Object() if type(value) is dict:
                return self._read_object(cast(dict[str, Json], value), node)
            case Array() | Object():
                return None

    def _read_array(self, values: list[Json], node: Array) -> Reading:
        readings, fits = self._read_parts(values, list(map(node.find, range(len(values)))))
        longest = inf if node.max_items is None else node.max_items
        return readings, fits and node.min_items <= len(values) <= longest

    def _read_object(self, members: dict[str, Json], node: Object) -> Reading:
        declared = {p.key: p for p in node.properties}
        nodes: list[Node | None] = []
        for key in members:
            found = declared.get(key) or node.find(key)
            nodes.append(None if found is None else found.node)
        values = list(members.values())
        readings, fits = self._read_parts(values, nodes)
        for key, property_ in declared.items():
            if property_.required and key not in members:
                fits = False
        if readings is values:
            return members, fits
        return dict(zip(members, readings, strict=True)), fits

    def _read_parts(
        self, values: list[Json], nodes: Sequence[Node | None]
    ) -> tuple[list[Json], bool]:
        """Reads each value by its node. Returns the values (the same list if none changes), and
        whether all fit."""
        readings: list[Json] = []
        all_fit = True
        for value, node in zip(values, nodes, strict=True):
            reading, fits = value, False
            if node is not None:
                reading, fits = self.read(value, node)
            readings.append(reading)
            all_fit = all_fit and fits
        if all(map(is_, values, readings)):
            return values, all_fit
        return readings, all_fit


def _pick(value: Json, values: tuple[Json, ...]) -> Reading | None:
    """Returns the listed value with the same text, or else one that is equal."""
    equal = [v for v in values if are_equal(v, value)]
    if not equal:
        return None
    if any(are_same(listed, value) for listed in equal):
        return value, True
    return equal[0], True


def _read_number(value: Json, node: Number) -> Reading | None:
    if not is_number(value):
        return None
    fits = is_within(cast(float, value), node.bounds)
    if not node.integer or isinstance(value, int):
        return value, fits
    whole = find_whole(value)
    if whole is None:
        return value, False
    return whole, fits


def is_within(value: float, bounds: Mapping[str, float]) -> bool:
    """Returns whether the number is within the bounds; `multipleOf` is ignored."""
    for keyword, bound in bounds.items():
        fits = _COMPARISONS.get(keyword)
        if fits is not None and not fits(value, bound):
            return False
    return True


def join_bounds(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    """Returns the bounds of the numbers that are within both."""
    joined = dict(a)
    for keyword, bound in b.items():
        stricter = max if keyword.endswith("inimum") else min
        joined[keyword] = stricter(bound, joined.get(keyword, bound))
    return joined


def express_number(node: Number) -> str | None:
    """Returns a regex for the numbers in the bounds of the mask, without `multipleOf`, or None."""
    if node == Number():
        return NUMBER
    bounds = {keyword: bound for keyword, bound in node.bounds.items() if keyword in _COMPARISONS}
    within = {**bounds, **node.mask_bounds}
    regex = express_range(within, integer=node.integer, places=node.places)
    if regex is None and node.mask_bounds:  # what a `not` has left of the range is beyond them
        return express_range(bounds, integer=node.integer, places=node.places)
    return regex


def has_no_number(node: Number) -> bool:
    """Returns whether the bounds allow no number, or no multiple."""
    if node.integer:
        first, last = count_multiples(node)
        return first > last
    low, high = node.bounds.get("minimum", -inf), node.bounds.get("maximum", inf)
    above = node.bounds.get("exclusiveMinimum", -inf)
    below = node.bounds.get("exclusiveMaximum", inf)
    return low > high or above >= min(high, below) or low >= below


def count_multiples(node: Number) -> tuple[float, float]:
    """Returns the smallest and largest multiple of an integer within the bounds, divided by it;
    without `multipleOf`, the smallest and largest integer. Infinite if there is no bound."""
    divisor = int(node.bounds.get("multipleOf", 1))
    firsts: list[float] = []
    lasts: list[float] = []
    for keyword, bound in node.bounds.items():
        match keyword:
            case "minimum":
                firsts.append(-(-ceil(bound) // divisor))
            case "exclusiveMinimum":
                firsts.append(floor(bound) // divisor + 1)
            case "maximum":
                lasts.append(floor(bound) // divisor)
            case "exclusiveMaximum":
                lasts.append(-(-ceil(bound) // divisor) - 1)
            case _:
                pass
    return max(firsts, default=-inf), min(lasts, default=inf)
