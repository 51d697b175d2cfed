"""Simplifies tools, step by step, for templates that fail on legal schemas: on `["string",
"null"]`, Hermes 2 Pro, Hermes 3 and Command R+ recurse without end. The steps that lose no
information come first. Later forms say less than the schema; the grammar still enforces it
whole."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from grammars.schema.pointers import find_value

Node = dict[str, Any]
Change = Callable[[Node], Node]
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_UNIONS = ("anyOf", "oneOf", "allOf")
_LISTS = ("prefixItems", "items", *_UNIONS)
_ONE = ("items", "additionalProperties", "contains", "not")


def simplify_tools(tools: Sequence[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Yields copies of the tools, each simpler than the one before."""
    before = list(tools)
    for step in _STEPS:
        after = [_change_function(tool, step) for tool in before]
        if after != before:
            yield after
        before = after


def _change_function(tool: Any, step: Change) -> Any:
    match tool:
        case {"function": Mapping() as function}:
            return {**tool, "function": step(dict(function))}
        case _:
            return tool


def _fill_function(function: Node) -> Node:
    """Adds a description and properties to a function without them; nothing is lost."""
    parameters = function.get("parameters") or {}
    if isinstance(parameters, Mapping):
        parameters = {"type": "object", "properties": {}, **parameters}
    return {"description": "", **function, "parameters": parameters}


def _each(change: Change) -> Change:
    def step(function: Node) -> Node:
        parameters = function.get("parameters")
        if not isinstance(parameters, Mapping):
            return function
        return {**function, "parameters": _walk(parameters, change)}

    return step


def _walk(schema: Any, change: Callable[[Node], Node]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    node = dict(change(dict(schema)))
    for key in _MAPS:
        if isinstance(node.get(key), Mapping):
            node[key] = {name: _walk(value, change) for name, value in node[key].items()}
    for key in _LISTS:
        if isinstance(node.get(key), list):
            node[key] = [_walk(value, change) for value in node[key]]
    for key in _ONE:
        if isinstance(node.get(key), Mapping):
            node[key] = _walk(node[key], change)
    return node


def _complete(node: Node) -> Node:
    """Adds properties to an object without them, and a description to each property, also to the
    schema `true`; nothing is lost. Gemma 4's first template took the keywords of such an object for
    properties."""
    properties: Any = node.get("properties")
    if properties is None and node.get("type") == "object":
        properties = {}
    if not isinstance(properties, Mapping):
        return node
    described: Node = {}
    for name, schema in properties.items():
        if schema is True:
            schema = {}
        if isinstance(schema, Mapping):
            schema = {"description": "", **schema}
        described[name] = schema
    return {**node, "properties": described}


def _one_type(node: Node) -> Node:
    types = node.get("type")
    if not isinstance(types, list):
        return node
    others = [name for name in types if name != "null"] or ["null"]
    return {**node, "type": others[0]}


def _no_null(node: Node) -> Node:
    if node.get("type") == "null":
        return _without(node, "type")
    return node


def _resolve(function: Node) -> Node:
    """Replaces references by their targets, one level deep, and by any object below that, since a
    schema may refer to itself."""
    root = function.get("parameters")
    if not isinstance(root, Mapping):
        return function

    def cut(node: Node) -> Node:
        if "$ref" not in node:
            return node
        return {"type": "object", **_without(node, "$ref")}

    def resolve(node: Node) -> Node:
        if "$ref" not in node:
            return node
        found: Node = {"type": "object"}
        target = _find(root, node["$ref"])
        if isinstance(target, Mapping):
            found = _walk(target, cut)
        return {**found, **_without(node, "$ref")}

    plain = _without(dict(root), "$defs", "definitions")
    return {**function, "parameters": _walk(plain, resolve)}


def _without(node: Node, *keys: str) -> Node:
    return {key: value for key, value in node.items() if key not in keys}


def _find(root: Any, reference: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    return find_value(root, reference[1:])


def _one_branch(node: Node) -> Node:
    """Keeps the first branch that is not null, and all of `allOf`."""
    plain = _without(node, *_UNIONS)
    branches = _find_branches(node, "allOf")
    for key in ("anyOf", "oneOf"):
        others = [branch for branch in _find_branches(node, key) if branch.get("type") != "null"]
        branches += others[:1]
    if not branches:
        return plain
    merged: Node = {}
    for branch in branches:
        merged |= branch
    return _one_branch(merged | plain)


def _find_branches(node: Node, key: str) -> list[Any]:
    return [branch for branch in node.get(key) or () if isinstance(branch, Mapping)]


def _describe_values(node: Node) -> Node:
    values = node.get("enum")
    if "enum" not in node and "const" in node:
        values = [node["const"]]
    if not isinstance(values, list):
        return node
    write = partial(json.dumps, ensure_ascii=False, default=str)
    listed = ", ".join(map(write, values))
    description = f"{node.get('description') or ''} (one of: {listed})".strip()
    return {**_without(node, "enum", "const"), "description": description}


def _fill_containers(node: Node) -> Node:
    """Adds `properties` and `items` to objects and arrays without them; these allow anything."""
    match node.get("type"):
        case "object" if "additionalProperties" not in node:
            return {**node, "additionalProperties": {}}
        case "array" if "items" not in node:
            return {**node, "items": {}}
        case _:
            return node


def _fill_properties(function: Node) -> Node:
    """As `_fill_containers` below the root, since no template reads more of the parameters."""
    parameters = function.get("parameters")
    if not isinstance(parameters, Mapping):
        return function
    filled = _walk(parameters, _fill_containers)
    if "additionalProperties" not in parameters:
        filled.pop("additionalProperties", None)
    return {**function, "parameters": filled}


_STEPS: tuple[Change, ...] = (
    _fill_function,
    _each(_complete),
    _each(_one_type),
    _resolve,
    _each(_one_branch),
    _each(_describe_values),
    _fill_properties,
    _each(_complete),  # also for nodes from a reference or a branch
    _each(_one_type),
    _each(_no_null),
)
