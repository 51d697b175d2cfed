"""Values as a schema means them: to JSON 2.0 and 2 are one number, to Python they are two.

Where a schema admits an integer, `2.0` becomes 2; where it lists 1.0, `1` becomes that. Nothing is
rounded: a float is taken for the integer only where no other number has become the same double.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Json,
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

_EXACT = 2**53


def settle(value: Json, schema: Schema) -> Json:
    """The value with the numbers that the schema means."""
    try:
        return _Settler(schema.definitions).read(value, schema.node)[0]
    except RecursionError:  # a value so deep is not checked, either
        return value


def are_equal(a: Json, b: Json) -> bool:
    """Are they one JSON value? (To JSON 1 and 1.0 are, 1 and true are not.)"""
    match a, b:
        case list(), list():
            x, y = cast(list[Json], a), cast(list[Json], b)
            return len(x) == len(y) and all(map(are_equal, x, y))
        case dict(), dict():
            m, n = cast(dict[str, Json], a), cast(dict[str, Json], b)
            return m.keys() == n.keys() and all(are_equal(m[key], n[key]) for key in m)
        case _:
            return a == b if is_number(a) and is_number(b) else are_same(a, b)


def find_whole(value: Json) -> int | None:
    """The integer that a float is; None where it is none, or may have been another number."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return None


def is_number(value: Json) -> bool:
    """Is it a number to JSON? (To Python, true and false are some.)"""
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Settler:
    """Reads values by nodes, as far as they fit.

    Args:
        definitions: what references name.
    """

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions
        self._known: dict[tuple[int, int], Reading] = {}

    def read(self, value: Json, node: Node) -> Reading:
        """As the first branch that admits it as it is, or else the first that admits it."""
        key = id(value), id(node)
        if key not in self._known:
            self._known[key] = self._choose(value, node)
        return self._known[key]

    def _choose(self, value: Json, node: Node) -> Reading:
        others = list[Reading]()
        for branch in flatten(node, self._definitions):
            found = self._read(value, branch)
            if found is not None and found[1] and found[0] is value:
                return found
            others += [] if found is None else [found]
        fitting = [found for found in others if found[1]]
        if fitting or len(others) == 1:
            return [*fitting, *others][0]
        return value, False

    def _read(self, value: Json, node: Flat) -> Reading | None:
        """The value as one of this type; None if it is of another."""
        match node:
            case AnyValue():
                return value, True
            case Constant(values):
                return _pick(value, values)
            case Number():
                return _read_number(value, node)
            case String():
                return (value, True) if isinstance(value, str) else None
            case Boolean():
                return (value, True) if isinstance(value, bool) else None
            case Null():
                return (value, True) if value is None else None
            case Array():
                return self._array(cast(list[Json], value), node) if type(value) is list else None
            case Object():
                if type(value) is not dict:
                    return None
                return self._object(cast(dict[str, Json], value), node)

    def _array(self, values: list[Json], node: Array) -> Reading:
        nodes = [node.find(i) for i in range(len(values))]
        longest = len(values) if node.max_items is None else node.max_items
        settled, fits = self._read_parts(values, nodes)
        fits = fits and node.min_items <= len(values) <= longest
        return (values if _are_identical(values, settled) else settled), fits

    def _object(self, members: dict[str, Json], node: Object) -> Reading:
        declared = {p.key: p for p in node.properties}
        found = (declared.get(key) or node.find(key) for key in members)
        nodes = [None if member is None else member.node for member in found]
        settled, fits = self._read_parts(list(members.values()), nodes)
        fits = fits and all(p.key in members for p in node.properties if p.required)
        if _are_identical(list(members.values()), settled):
            return members, fits
        return dict(zip(members, settled, strict=True)), fits

    def _read_parts(
        self, values: list[Json], nodes: Sequence[Node | None]
    ) -> tuple[list[Json], bool]:
        pairs = zip(values, nodes, strict=True)
        readings = [(v, False) if node is None else self.read(v, node) for v, node in pairs]
        return [value for value, _ in readings], all(fits for _, fits in readings)


def _are_identical(a: list[Json], b: list[Json]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


def _pick(value: Json, values: tuple[Json, ...]) -> Reading | None:
    """The listed value that is the same, or else one that is equal."""
    equal = [v for v in values if are_equal(v, value)]
    if any(are_same(v, value) for v in equal):
        return value, True
    return (equal[0], True) if equal else None


def _read_number(value: Json, node: Number) -> Reading | None:
    if not is_number(value):
        return None
    fits = _holds(cast(float, value), node)
    if not node.integer or isinstance(value, int):
        return value, fits
    whole = find_whole(value)
    return (value, False) if whole is None else (whole, fits)


def _holds(value: float, node: Number) -> bool:
    """Is the number within the bounds? What it is a multiple of does not matter here."""
    for keyword, bound in node.bounds.items():
        match keyword:
            case "minimum":
                fits = value >= bound
            case "maximum":
                fits = value <= bound
            case "exclusiveMinimum":
                fits = value > bound
            case "exclusiveMaximum":
                fits = value < bound
            case _:
                fits = True
        if not fits:
            return False
    return True
