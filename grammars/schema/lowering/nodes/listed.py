"""Nodes with single values: nodes without some values (`not` of an `enum`), and all lists of a few
constants without repetitions (`uniqueItems`)."""

from dataclasses import replace
from itertools import groupby, pairwise, permutations
from math import perm

from grammars.regex.texts import ANY, match_words
from grammars.schema.json_values import Json
from grammars.schema.lowering.nodes.inhabitation import NEVER
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Node,
    Null,
    Number,
    Object,
    String,
    Union,
    identify,
)
from grammars.schema.numbers import is_number, join_bounds

MAX_LISTS = 400
"""The limit for lists that are written out."""
MAX_VALUES = 60
"""The limit for constants in a list without repetitions: the parameter of a rule has 64 bits."""
MAX_WORDS = 1_000  # excluded strings that the mask enforces
_EVERY_TYPE = Union((Object(), Array(), String(), Number(), Boolean(), Null()))
_MAX_NUMBERS = 8


def list_choices(node: Array) -> Node | None:
    """Returns all lists without repeated items; None if the mask cannot enforce them."""
    if node.prefix or node.items is None:
        return None
    values = _list_values(node.items)
    if values is None or len(values) > MAX_VALUES:
        return None
    longest = len(values)
    if node.max_items is not None:
        longest = min(longest, node.max_items)
    lengths = range(node.min_items, longest + 1)
    if sum(perm(len(values), length) for length in lengths) > MAX_LISTS:
        return replace(node, items=Constant(tuple(values)), max_items=longest, distinct=True)
    lists: list[Json] = []
    for length in lengths:
        lists += map(list, permutations(values, length))
    if not lists:
        return NEVER
    return Constant(tuple(lists))


def _list_values(node: Node) -> list[Json] | None:
    """Returns the scalars that a node allows, each once; None if it allows others, or too many."""
    match node:
        case Constant(constants):
            distinct: dict[str, Json] = {}
            for value in constants:
                if isinstance(value, list | dict):
                    return None
                distinct[identify(value)] = value
            return [*distinct.values()]
        case Boolean():
            return [True, False]
        case Null():
            return [None]
        case Union(branches):
            values: list[Json] = []
            for branch in branches:
                part = _list_values(branch)
                if part is None:
                    return None
                values += part
            return _list_values(Constant(tuple(values)))
        case _:
            return None


def exclude(node: Node, values: list[Json]) -> Node | None:
    """Returns the node without these values; None if nodes cannot express it."""
    match node:
        case AnyValue():
            return exclude(_EVERY_TYPE, values)
        case Union(branches):
            rests: list[Node] = []
            for branch in branches:
                rest = exclude(branch, values)
                if rest is None:
                    return None
                rests.append(rest)
            return Union(tuple(rests))
        case Constant(options):
            excluded = set(map(identify, values))
            return Constant(tuple(v for v in options if identify(v) not in excluded))
        case Boolean():
            return exclude(Constant((True, False)), values)
        case Null():
            return NEVER if None in values else node
        case String():
            return _exclude_words(node, [v for v in values if isinstance(v, str)])
        case Number():
            return _exclude_numbers(node, [v for v in values if is_number(v)])
        case Array() if list not in map(type, values):
            return node
        case Object() if dict not in map(type, values):
            return node
        case _:
            return None


def _exclude_words(node: String, words: list[str]) -> Node | None:
    words = [word for word in words if node.accepts(word)]
    if not words:
        return node
    if len(words) > MAX_WORDS:
        return None
    pattern = ANY if node.pattern is None else f"({node.pattern})"
    return replace(node, pattern=f"(?&{pattern}|(?~{match_words(words)[0]}))")


def _exclude_numbers(node: Number, numbers: list[float]) -> Node | None:
    """Returns the intervals between these numbers."""
    if not numbers:
        return node
    # Not in a set: a client could choose integers that all have the same hash.
    points = [number for number, _ in groupby(sorted(numbers))]
    if "multipleOf" in node.bounds or len(points) > _MAX_NUMBERS:
        return None
    gaps: list[Node] = []
    for low, high in pairwise([None, *points, None]):
        gap = {} if low is None else {"exclusiveMinimum": low}
        if high is not None:
            gap["exclusiveMaximum"] = high
        gaps.append(replace(node, bounds=join_bounds(node.bounds, gap)))
    return Union(tuple(gaps))
