"""Tools as a template may bear them that fails on a legal schema: simpler, step by step.

Some templates walk through the schemas with a macro that knows few types: `["string", "null"]`
recurses for ever in Hermes 2 Pro, Hermes 3 and Command R+. What the prompt shows then says less
than the schema; the grammar holds the schema itself.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Node = dict[str, Any]
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
_ONE = ("items", "additionalProperties", "contains", "not")


def simplify_tools(tools: Sequence[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Copies of the tools, each simpler than the one before; those that change nothing are left
    out."""
    before = list(tools)
    for step in _STEPS:
        after = [_change_function(tool, step) for tool in before]
        if after != before:
            yield after
        before = after


def _change_function(tool: Any, step: Callable[[Node], Node]) -> Any:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    return {**tool, "function": step(dict(function))}


def _fill_function(function: Node) -> Node:
    """What a template may read of every function; nothing is lost."""
    parameters = function.get("parameters") or {}
    if isinstance(parameters, Mapping):
        parameters = {"type": "object", "properties": {}, **parameters}
    return {"description": "", **function, "parameters": parameters}


def _describe(function: Node) -> Node:
    """Every parameter has a description; nothing is lost."""

    def describe(node: Node) -> Node:
        properties = node.get("properties")
        if not isinstance(properties, Mapping):
            return node
        described = {
            key: {"description": "", **value} if isinstance(value, Mapping) else value
            for key, value in properties.items()
        }
        return {**node, "properties": described}

    return _walk_parameters(function, describe)


def _walk_parameters(function: Node, change: Callable[[Node], Node]) -> Node:
    parameters = function.get("parameters")
    if not isinstance(parameters, Mapping):
        return function
    return {**function, "parameters": _walk(parameters, change)}


def _walk(schema: Any, change: Callable[[Node], Node]) -> Any:
    """A copy of a schema with all of its nodes changed, the outer ones first."""
    if not isinstance(schema, Mapping):
        return schema
    node = dict(change(dict(schema)))
    for key in _MAPS:
        if isinstance(node.get(key), Mapping):
            node[key] = {name: _walk(value, change) for name, value in node[key].items()}
    for key in (*_LISTS, "items"):
        if isinstance(node.get(key), list):
            node[key] = [_walk(value, change) for value in node[key]]
    for key in _ONE:
        if isinstance(node.get(key), Mapping):
            node[key] = _walk(node[key], change)
    return node


def _allow_any(function: Node) -> Node:
    """`true` as a schema is an object like all others."""

    def allow(node: Node) -> Node:
        properties = node.get("properties")
        if not isinstance(properties, Mapping):
            return node
        changed = {k: {"description": ""} if v is True else v for k, v in properties.items()}
        return {**node, "properties": changed}

    return _walk_parameters(function, allow)


def _one_type(node: Node) -> Node:
    """The first type that is not null."""
    types = node.get("type")
    if not isinstance(types, list):
        return node
    return {**node, "type": next((kind for kind in types if kind != "null"), "null")}


def _no_null(node: Node) -> Node:
    """Null is no type that all templates know."""
    return _without(node, "type") if node.get("type") == "null" else node


def _resolve(function: Node) -> Node:
    """References become what they refer to, one level deep; those in there any object."""
    root = function.get("parameters")

    def inline(node: Node) -> Node:
        return {"type": "object", **_without(node, "$ref")} if "$ref" in node else node

    def resolve(node: Node) -> Node:
        if "$ref" not in node:
            return node
        target = _find(root, node["$ref"])
        found = _walk(target, inline) if isinstance(target, Mapping) else {"type": "object"}
        return {**found, **_without(node, "$ref")}

    if not isinstance(root, Mapping):
        return function
    plain = _without(dict(root), "$defs", "definitions")
    return {**function, "parameters": _walk(plain, resolve)}


def _without(node: Node, *keys: str) -> Node:
    return {key: value for key, value in node.items() if key not in keys}


def _find(root: Any, reference: Any) -> Any:
    """What a JSON pointer into the schema itself names; None for any other reference."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        root = root.get(name) if isinstance(root, Mapping) else None
    return root


def _one_branch(node: Node) -> Node:
    """The first branch that is not null, and all of `allOf`."""
    branches = [b for b in node.get("allOf") or () if isinstance(b, Mapping)]
    for key in ("anyOf", "oneOf"):
        options = [b for b in node.get(key) or () if isinstance(b, Mapping)]
        branches += [b for b in options if b.get("type") != "null"][:1]
    if not branches:
        return _without(node, *_LISTS[1:])
    merged: Node = {}
    for branch in branches:
        merged = {**merged, **branch}
    return _one_branch({**merged, **_without(node, "anyOf", "oneOf", "allOf")})


def _say_values(node: Node) -> Node:
    """Values that are enumerated go into the description."""
    values = node.get("enum", [node["const"]] if "const" in node else None)
    if not isinstance(values, list):
        return node
    listed = ", ".join(json.dumps(value, ensure_ascii=False, default=str) for value in values)
    said = f"{node.get('description') or ''} (one of: {listed})".strip()
    return {**_without(node, "enum", "const"), "description": said}


def _open(function: Node) -> Node:
    """Objects and lists say what they hold, if only that it is anything."""

    def fill(node: Node) -> Node:
        match node.get("type"):
            case "object" if "additionalProperties" not in node:
                return {**node, "additionalProperties": {}}
            case "array" if "items" not in node:
                return {**node, "items": {}}
            case _:
                return node

    parameters = function.get("parameters")
    if not isinstance(parameters, Mapping):
        return function
    filled = _walk(parameters, fill)
    if "additionalProperties" not in parameters:
        filled.pop("additionalProperties", None)  # no template asks the root
    return {**function, "parameters": filled}


def _each(change: Callable[[Node], Node]) -> Callable[[Node], Node]:
    return lambda function: _walk_parameters(function, change)


_STEPS: tuple[Callable[[Node], Node], ...] = (
    _fill_function,
    _allow_any,
    _describe,
    _each(_one_type),
    _resolve,
    _each(_one_branch),
    _each(_say_values),
    _open,
    _describe,  # also what a reference or a branch has brought in
    _each(_one_type),
    _each(_no_null),
)
