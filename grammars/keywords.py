"""What single keywords of JSON Schema mean to the mask."""

import json
from collections.abc import Mapping, Sequence

from grammars.schema import (
    Array,
    Boolean,
    Constant,
    Json,
    Node,
    Null,
    Number,
    Object,
    Reference,
    String,
)

HELD = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""The keywords that nodes can express, by the type that they speak of."""


def is_idle(keyword: str, flat: Mapping[str, Json]) -> bool:
    """Keywords that stand there and exclude nothing (zod writes propertyNames for each record)."""
    value = flat[keyword]
    idle: dict[str, bool] = {
        "propertyNames": value in ({"type": "string"}, {}, True),
        "uniqueItems": value is False,
        "minProperties": value == 0,
        "unevaluatedProperties": value is True,
        "additionalItems": not isinstance(flat.get("items"), list) or value is True,
        "nullable": value is False,
        "then": "if" not in flat,
        "else": "if" not in flat,
    }
    return idle.get(keyword, keyword.startswith("x-"))


def find_types(values: Sequence[Json]) -> list[str]:
    """The types of JSON Schema that these values have; that of a number is `number`."""
    names: dict[type, str] = {
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    return list(dict.fromkeys(names[type(value)] for value in values))


def are_disjoint(branches: Sequence[Node], definitions: Mapping[str, Node]) -> bool:
    """Can no value fit two branches? Told by their kinds, or by a key with different constants."""
    resolved = [_resolve(branch, definitions) for branch in branches]
    kinds = {type(branch) for branch in resolved}
    if kinds <= {String, Number, Boolean, Null, Array, Object} and len(kinds) == len(resolved):
        return True
    constants = [b.values for b in resolved if isinstance(b, Constant)]
    if len(constants) == len(resolved):
        return _are_apart(constants)
    tags = [
        {p.key: p.node.values for p in b.properties if p.required and isinstance(p.node, Constant)}
        for b in resolved
        if isinstance(b, Object)
    ]
    if len(tags) < len(resolved):
        return False
    shared = [key for key in tags[0] if all(key in t for t in tags)]
    return any(_are_apart([t[key] for t in tags]) for key in shared)


def _resolve(node: Node, definitions: Mapping[str, Node]) -> Node:
    """The node itself, references followed; a reference if they lead in a circle."""
    seen: set[str] = set()
    while isinstance(node, Reference) and node.name not in seen:
        seen.add(node.name)
        node = definitions[node.name]
    return node


def _are_apart(groups: list[tuple[Json, ...]]) -> bool:
    spelled = [json.dumps(v, sort_keys=True) for group in groups for v in group]
    return len(set(spelled)) == len(spelled)
