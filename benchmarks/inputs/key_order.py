"""Instances with their keys in the order of a schema."""

from collections.abc import Mapping
from typing import Any

from grammars.errors import SchemaError
from grammars.lowering.lower import lower
from grammars.schema.nodes import Array, Constant, Node, Object, flatten


def sort_instances(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the row with all instances sorted; the row itself if its schema is refused."""
    try:
        schema = lower(row["schema"], close=False, only_object=False)
    except SchemaError:
        return row
    tests = [
        {**test, "data": _sort(test["data"], [schema.node], schema.definitions)}
        for test in row.get("tests", [])
    ]
    return {**row, "tests": tests}


def _sort(value: Any, nodes: list[Node], definitions: Mapping[str, Node]) -> Any:
    branches = [branch for node in nodes for branch in flatten(node, definitions)]
    if isinstance(value, list):
        arrays = [b for b in branches if isinstance(b, Array)]
        return [_sort(v, _items(arrays, i), definitions) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    objects = [b for b in branches if isinstance(b, Object)]
    objects = [b for b in objects if _fits(value, b)] or objects
    keys = dict.fromkeys(p.key for b in objects for p in b.properties if p.key in value)
    return {
        key: _sort(value[key], _members(objects, key), definitions)
        for key in dict.fromkeys([*keys, *value])
    }


def _fits(value: Mapping[str, Any], node: Object) -> bool:
    """Does the object look like one of that node?"""
    for declared in node.properties:
        if declared.key not in value:
            if declared.required:
                return False
        elif (
            isinstance(declared.node, Constant) and value[declared.key] not in declared.node.values
        ):
            return False
    return None not in map(node.find, value)


def _items(arrays: list[Array], index: int) -> list[Node]:
    nodes = [b.find(index) for b in arrays]
    return [node for node in nodes if node is not None]


def _members(objects: list[Object], key: str) -> list[Node]:
    nodes = list[Node]()
    for b in objects:
        found = b.find(key)
        nodes += [] if found is None else [found.node]
    return nodes
