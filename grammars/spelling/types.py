"""The types of JSON Schema that values have and nodes allow, by name; the parts of lists and
objects."""

from collections.abc import Container, Iterable, Iterator
from typing import cast

from grammars.schema.json_values import Json
from grammars.schema.members import KeyOrder
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Node,
    Null,
    Number,
    Object,
    Property,
    String,
)
from grammars.spelling.styles import Sorting, sort_keys

ONE_TYPE: tuple[Flat, ...] = (Null(), Boolean(), Number(), Array(), Object(), String())
"""All values, as nodes of one type each."""


def name_types(value: Json) -> tuple[str, ...]:
    """Returns the types of a value, the narrowest first."""
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case int():
            return ("integer", "number")
        case float():
            return ("number",)
        case str():
            return ("string",)
        case list():
            return ("array",)
        case _:
            return ("object",)


def has_type(value: Json, types: Container[str]) -> bool:
    return any(name in types for name in name_types(value))


def list_types(node: Flat) -> tuple[str, ...]:
    """Returns the types that a node allows; numbers also allow integers."""
    match node:
        case AnyValue():
            return ("null", "boolean", "integer", "number", "array", "object", "string")
        case Constant(values):
            return tuple(name_types(value)[0] for value in values)
        case Number(integer):
            return ("integer",) if integer else ("integer", "number")
        case String():
            return ("string",)
        case Boolean():
            return ("boolean",)
        case Null():
            return ("null",)
        case Array():
            return ("array",)
        case Object():
            return ("object",)


def split_types(nodes: Iterable[Flat]) -> Iterator[Flat]:
    for node in nodes:
        match node:
            case AnyValue():
                yield from ONE_TYPE
            case Constant(values):
                yield from (Constant((value,)) for value in values)
            case _:
                yield node


def sort_properties(node: Object, style: Sorting) -> tuple[Property, ...]:
    """Returns the properties in the order in which the style writes them."""
    by_key = {p.key: p for p in node.properties}
    return tuple(by_key[key] for key in sort_keys(by_key, style))


def order_members(hole: Sorting, order: KeyOrder, *, extra: bool) -> KeyOrder:
    """Returns the order in which arguments can be written. If the format sorts them and undeclared
    ones (`extra`) are allowed, these come between the declared ones, which only the order `ANY`
    supports."""
    return KeyOrder.ANY if extra and hole.sorted_keys else order


def take_apart(value: Json) -> Node:
    """Returns a node for exactly this list or object, with constants for its parts."""
    if isinstance(value, list):
        items = tuple(map(_take_part, cast(list[Json], value)))
        return Array(items, None, min_items=len(items), max_items=len(items))
    members = cast(dict[str, Json], value).items()
    return Object(tuple(Property(k, _take_part(v), required=True) for k, v in members), None)


def _take_part(value: Json) -> Node:
    return take_apart(value) if isinstance(value, list | dict) else Constant((value,))
