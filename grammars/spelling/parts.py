"""Lists and objects in the parts that a style writes."""

from typing import cast

from grammars.schema.members import KeyOrder
from grammars.schema.nodes import Array, Constant, Json, Node, Object, Property
from grammars.spelling.styles import Sorting, sort_keys


def sort_properties(node: Object, style: Sorting) -> tuple[Property, ...]:
    """The properties in the order in which they are written."""
    by_key = {p.key: p for p in node.properties}
    return tuple(by_key[key] for key in sort_keys(by_key, style))


def order_members(hole: Sorting, order: KeyOrder, *, extra: bool) -> KeyOrder:
    """In which order arguments can be written: where they are sorted, undeclared ones (`extra`)
    stand between the declared ones, which only any order admits."""
    return KeyOrder.ANY if extra and hole.sorted_keys else order


def take_apart(value: Json) -> Node:
    """A node that only this list or object fits, with constants as its parts."""
    if isinstance(value, list):
        items = tuple(map(_take_part, cast(list[Json], value)))
        return Array(items, None, len(items), len(items))
    members = cast(dict[str, Json], value).items()
    return Object(tuple(Property(k, _take_part(v), required=True) for k, v in members), None)


def _take_part(value: Json) -> Node:
    return take_apart(value) if isinstance(value, list | dict) else Constant((value,))
