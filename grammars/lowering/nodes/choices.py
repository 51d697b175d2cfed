"""Lists without repetitions of a few constants. Where they are few, each of them is written out."""

from dataclasses import replace
from itertools import permutations
from math import perm

from grammars.lowering.nodes.inhabitation import NEVER
from grammars.schema.nodes import Array, Boolean, Constant, Json, Node, Null, Union

MOST = 400
"""More lists than these are not written out."""
MOST_VALUES = 60
"""Lists of more constants than these are not held: a rule has 64 bits."""


def list_choices(node: Array) -> Node | None:
    """All lists of the node that have no item twice; None where they cannot be held."""
    values = None if node.items is None else _list_values(node.items)
    if node.prefix or values is None:
        return None
    longest = len(values) if node.max_items is None else min(len(values), node.max_items)
    lengths = range(node.min_items, longest + 1)
    if len(values) > MOST_VALUES:
        return None
    if sum(perm(len(values), length) for length in lengths) > MOST:
        return replace(node, items=Constant(tuple(values)), max_items=longest, distinct=True)
    lists = [list(chosen) for length in lengths for chosen in permutations(values, length)]
    return Constant(tuple(lists)) if lists else NEVER


def _list_values(node: Node) -> list[Json] | None:
    """The scalars that a node admits, each once; None where they are others, or many."""
    match node:
        case Constant(values):
            scalars = [v for v in values if not isinstance(v, list | dict)]
            distinct = {(isinstance(v, bool), v): v for v in scalars}
            return [*distinct.values()] if len(scalars) == len(values) else None
        case Boolean():
            return [True, False]
        case Null():
            return [None]
        case Union(branches):
            parts = [_list_values(branch) for branch in branches]
            if any(part is None for part in parts):
                return None
            return _list_values(Constant(tuple(v for part in parts if part for v in part)))
        case _:
            return None
