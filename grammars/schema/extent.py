"""An upper bound of the shortest value of a schema, in bytes: so much a completion may write."""

import json
from collections.abc import Iterable

from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Extra,
    Json,
    Node,
    Null,
    Number,
    Object,
    Reference,
    Schema,
    String,
    Union,
)

SCALAR = 24  # bytes; a number, a short text, the tags around a value
PATTERN = 64  # bytes; a short text that fits an expression


def bound_length(schema: Schema) -> int:
    """The bytes of a shortest value below any node of the schema, at most.

    Every definition is counted once: a reference that leads back is not part of a shortest value.
    """
    return _measure_all([schema.node, *schema.definitions.values()])


def _measure_all(nodes: Iterable[Node | None]) -> int:
    return sum(_measure(node) for node in nodes if node is not None)


def _measure(node: Node) -> int:
    match node:
        case AnyValue() | Boolean() | Null() | Number() | Reference():
            return SCALAR
        case Constant(values):
            return SCALAR + max(map(_measure_constant, values), default=0)
        case String(least, _, pattern):
            total = SCALAR + 6 * least  # each character may have to be written as \uXXXX
            if pattern:
                total += _measure_pattern(pattern)
            return total
        case Array(prefix, items, least, _, contains):
            total = SCALAR + _measure_all(prefix) + max(1, least) * _measure_all([items])
            if contains is not None:
                nodes = (*contains.matching, *contains.others)
                total += max(1, contains.least, least) * _measure_all(nodes)
            return total
        case Object(properties):
            extras = sum(map(_measure_extra, node.extras))
            total = SCALAR + max(1, node.presence.least) * extras
            for declared in properties:
                total += _measure_constant(declared.key) + _measure(declared.node)
            return total
        case Union(branches):
            return max(map(_measure, branches), default=0)


def _measure_extra(extra: Extra) -> int:
    return _measure(extra.node) + sum(map(_measure_pattern, extra.keys.parts))


def _measure_pattern(pattern: str) -> int:
    return PATTERN + len(pattern)


def _measure_constant(value: Json) -> int:
    return SCALAR + len(json.dumps(value))
