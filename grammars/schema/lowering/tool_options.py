"""Options of a tool that change its lowered schema.

`strict: false` (`loosen`): the mask enforces the shape and the declared types; the rest is checked.

`require_nonempty`: required strings have at least one character, at any depth. Schemas rarely say
`minLength: 1`, although an empty string is often a mistake; but `""` can also be meant
(`edit(new_string="")` deletes text), so this is an option. It changes the lowered schema, so that
every format enforces it. Optional strings and list items stay as they are, and so do nodes that
allow only the empty string.
"""

from collections.abc import Iterable
from dataclasses import replace

from grammars.schema.json_values import Json
from grammars.schema.lowering.nodes.inhabitation import prune
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Finding,
    Node,
    Null,
    Number,
    Object,
    Property,
    Reference,
    Schema,
    String,
    Union,
    find_reached,
    map_children,
    unite,
)

SHAPE = frozenset(["type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf"])
"""Keywords that a loose schema still enforces."""

_SUFFIX = " (not empty)"  # suffix of definitions without empty strings


def loosen(schema: Schema, reason: str = "the tool is not strict") -> Schema:
    """Returns the schema with only names, required keys and declared types; undeclared keys are
    allowed. The report gives the reason why the other keywords are checked."""
    enforced: list[Finding] = []
    checked = [*schema.report.checked]
    for finding in schema.report.enforced:
        if finding.keyword in SHAPE:
            enforced.append(finding)
        else:
            checked.append(replace(finding, reason=reason))
    return replace(
        schema,
        node=_loosen(schema.node),
        definitions={name: _loosen(node) for name, node in schema.definitions.items()},
        report=replace(schema.report, enforced=tuple(enforced), checked=tuple(checked)),
    )


def _loosen(node: Node) -> Node:
    match node:
        case AnyValue() | Boolean() | Null() | Reference():
            return node
        case Constant(values):
            return unite(_distinct(map(_find_type, values)))
        case String():
            return String()
        case Number(integer):
            return Number(integer)
        case Array(prefix, items):
            rest = AnyValue() if items is None else _loosen(items)
            return Array(tuple(map(_loosen, prefix)), rest)
        case Object(properties):
            return Object(tuple(replace(p, node=_loosen(p.node)) for p in properties))
        case Union(branches):
            return Union(tuple(_distinct(map(_loosen, branches))))


def _distinct(nodes: Iterable[Node]) -> list[Node]:
    """Returns each node once. (Nodes with bounds are not hashable.)"""
    kept: list[Node] = []
    for node in nodes:
        if node not in kept:
            kept.append(node)
    return kept


def _find_type(value: Json) -> Node:
    """Returns the node for all values with the type of this value."""
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


def require_nonempty(schema: Schema) -> Schema:
    """Returns the schema without empty strings in required members."""
    definitions = {name: _tighten_objects(node) for name, node in schema.definitions.items()}
    for name, node in schema.definitions.items():
        definitions[name + _SUFFIX] = _tighten(node)
    root, definitions, _ = prune(_tighten_objects(schema.node), definitions)
    used = find_reached(root, definitions)
    definitions = {name: node for name, node in definitions.items() if name in used}
    return replace(schema, node=root, definitions=definitions)


def _tighten_objects(node: Node) -> Node:
    """Returns the same node, in which required strings of objects are not empty."""
    tightened = map_children(node, _tighten_objects)
    if not isinstance(node, Object) or not isinstance(tightened, Object):
        return tightened
    properties: list[Property] = []
    for declared, other in zip(node.properties, tightened.properties, strict=True):
        if declared.required:
            other = replace(declared, node=_tighten(declared.node))
        properties.append(other)
    return replace(tightened, properties=tuple(properties))


def _tighten(node: Node) -> Node:
    """Returns the node without the empty string, if it allows other values."""
    match node:
        case String(shortest, longest):
            if longest == 0:
                return node
            return replace(node, min_length=max(1, shortest))
        case Constant(values):
            rest = tuple(value for value in values if value != "")
            return Constant(rest or values)
        case Union(branches):
            return Union(tuple(map(_tighten, branches)))
        case Reference(name):
            return Reference(name + _SUFFIX)
        case _:
            return _tighten_objects(node)
