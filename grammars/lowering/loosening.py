"""`strict: false`: the shape and the declared types are held by the mask, the rest is checked."""

from collections.abc import Iterable
from dataclasses import replace

from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Finding,
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

SHAPE = frozenset(["type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf"])
"""Keywords that a loose schema still enforces."""


def loosen(schema: Schema) -> Schema:
    """The schema with names, required keys and declared types alone; undeclared keys are open."""
    held = tuple(f for f in schema.report.enforced if f.keyword in SHAPE)
    rest = (f for f in schema.report.enforced if f.keyword not in SHAPE)
    checked = tuple(Finding(f.pointer, f.keyword, "the tool is not strict") for f in rest)
    return replace(
        schema,
        node=_loosen(schema.node),
        definitions={name: _loosen(node) for name, node in schema.definitions.items()},
        report=replace(schema.report, enforced=held, checked=schema.report.checked + checked),
    )


def _loosen(node: Node) -> Node:
    match node:
        case AnyValue() | Boolean() | Null() | Reference():
            return node
        case Constant(values):
            kinds = _distinct(map(_kind, values))
            return kinds[0] if len(kinds) == 1 else Union(tuple(kinds))
        case String():
            return String()
        case Number(integer):
            return Number(integer)
        case Array(prefix, items):
            return Array(tuple(map(_loosen, prefix)), _loosen(items) if items else AnyValue())
        case Object(properties):
            declared = tuple(replace(p, node=_loosen(p.node)) for p in properties)
            return Object(declared, AnyValue(), True)
        case Union(branches):
            return Union(tuple(_distinct(map(_loosen, branches))))


def _distinct(nodes: Iterable[Node]) -> list[Node]:
    kept: list[Node] = []
    for node in nodes:
        if node not in kept:
            kept.append(node)
    return kept


def _kind(value: Json) -> Node:
    """What a constant is, as a node."""
    match value:
        case bool():
            return Boolean()
        case None:
            return Null()
        case int():
            return Number(integer=True)
        case float():
            return Number()
        case str():
            return String()
        case list():
            return Array()
        case _:
            return Object()
