"""Values as a schema means them: to JSON 2.0 and 2 are one number, to Python they are two.

Where a schema admits an integer, `2.0` becomes 2; where it lists 1.0, `1` becomes that. Nothing is
rounded: a float is taken for the integer only where no other number has become the same double.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from grammars.schema import (
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

_EXACT = 2**53


def settle(value: Json, schema: Schema) -> Json:
    """The value with the numbers that the schema means."""
    try:
        found = _Settler(schema.definitions).read(value, schema.node)
    except RecursionError:
        return value
    return value if found is None else found[0]


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
            return a == b if _is_number(a) and _is_number(b) else are_same(a, b)


def find_whole(value: Json) -> int | None:
    """The integer that a float is; None where it is none, or may have been another number."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Settler:
    """Reads values by nodes. What a node does not admit is None; else it is a tuple.

    Args:
        definitions: what references name.
    """

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions
        self._known: dict[tuple[int, int], tuple[Json] | None] = {}

    def read(self, value: Json, node: Node) -> tuple[Json] | None:
        """As the first branch that leaves it as it is, or else the first that admits it."""
        key = id(value), id(node)
        if key not in self._known:
            self._known[key] = self._choose(value, node)
        return self._known[key]

    def _choose(self, value: Json, node: Node) -> tuple[Json] | None:
        first: tuple[Json] | None = None
        for found in self._read_all(value, node):
            if found[0] is value:
                return found
            first = first or found
        return first

    def _read_all(self, value: Json, node: Node) -> Iterator[tuple[Json]]:
        for branch in flatten(node, self._definitions):
            found = self._read(value, branch)
            if found is not None:
                yield found

    def _read(self, value: Json, node: Flat) -> tuple[Json] | None:
        match node:
            case AnyValue():
                return (value,)
            case Constant(values):
                return _pick(value, values)
            case Number():
                return _read_number(value, node)
            case String():
                return (value,) if isinstance(value, str) else None
            case Boolean():
                return (value,) if isinstance(value, bool) else None
            case Null():
                return (value,) if value is None else None
            case Array():
                return self._array(cast(list[Json], value), node) if type(value) is list else None
            case Object():
                if type(value) is not dict:
                    return None
                return self._object(cast(dict[str, Json], value), node)

    def _array(self, values: list[Json], node: Array) -> tuple[Json] | None:
        longest = len(values) if node.max_items is None else node.max_items
        if not node.min_items <= len(values) <= longest:
            return None
        settled = list[Json]()
        for i, value in enumerate(values):
            inner = node.prefix[i] if i < len(node.prefix) else node.items
            found = None if inner is None else self.read(value, inner)
            if found is None:
                return None
            settled.append(found[0])
        same = all(x is y for x, y in zip(settled, values, strict=True))
        return (values,) if same else (settled,)

    def _object(self, members: dict[str, Json], node: Object) -> tuple[Json] | None:
        declared = {p.key: p.node for p in node.properties}
        if any(p.required and p.key not in members for p in node.properties):
            return None
        settled = dict[str, Json]()
        for key, value in members.items():
            inner = declared.get(key, node.additional)
            found = None if inner is None else self.read(value, inner)
            if found is None:
                return None
            settled[key] = found[0]
        return (members,) if all(settled[key] is members[key] for key in members) else (settled,)


def _pick(value: Json, values: tuple[Json, ...]) -> tuple[Json] | None:
    """The listed value that is the same, or else one that is equal."""
    equal = [v for v in values if are_equal(v, value)]
    if any(are_same(v, value) for v in equal):
        return (value,)
    return (equal[0],) if equal else None


def _read_number(value: Json, node: Number) -> tuple[Json] | None:
    if not _is_number(value) or not _holds(cast(float, value), node):
        return None
    if not node.integer or isinstance(value, int):
        return (value,)
    whole = find_whole(value)
    return None if whole is None else (whole,)


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
