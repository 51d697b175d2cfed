"""How much text one step into a schema may make necessary: an upper bound, in bytes."""

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
    return _sum([schema.node, *schema.definitions.values()])


def _sum(nodes: Iterable[Node]) -> int:
    return sum(map(_length, nodes))


def _length(node: Node) -> int:
    match node:
        case AnyValue() | Boolean() | Null() | Number() | Reference():
            return SCALAR
        case Constant(values):
            return SCALAR + max(map(_spelled, values), default=0)
        case String(least, _, pattern):
            return SCALAR + 6 * least + (PATTERN + len(pattern) if pattern else 0)
        case Array(prefix, items, least, _, contains):
            each = _length(items) if items is not None else 0
            counted = 0
            if contains is not None:
                nodes = (n for n in (*contains.matching, *contains.others) if n is not None)
                counted = max(1, contains.least, least) * _sum(nodes)
            return SCALAR + _sum(prefix) + max(1, least) * each + counted
        case Object(properties):
            each = sum(map(_measure_extra, node.extras))
            rest = max(1, node.presence.least) * each
            return SCALAR + rest + sum(_spelled(p.key) + _length(p.node) for p in properties)
        case Union(branches):
            return max(map(_length, branches), default=0)


def _measure_extra(extra: Extra) -> int:
    patterns = sum(PATTERN + len(part) for part in extra.keys.parts)
    return _length(extra.node) + patterns


def _spelled(value: Json) -> int:
    return SCALAR + len(json.dumps(value))
