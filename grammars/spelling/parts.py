"""Splits lists and objects into the parts that a style writes."""

from typing import cast

from grammars.schema.json_values import Json
from grammars.schema.members import KeyOrder
from grammars.schema.nodes import Array, Constant, Node, Object, Property
from grammars.spelling.styles import Sorting, sort_keys


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
