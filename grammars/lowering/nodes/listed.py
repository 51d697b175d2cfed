"""Nodes and single values: nodes without some values (`not` of an `enum`), and lists of a few
constants without repetitions (`uniqueItems`), each of them written out."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, permutations
from math import perm

from grammars.lowering.nodes.inhabitation import NEVER
from grammars.regex.automaton import compile_regexes
from grammars.regex.texts import ANY
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Json,
    Node,
    Null,
    Number,
    Object,
    String,
    Union,
)
from grammars.schema.numbers import are_equal, is_number

MOST_LISTS = 400
"""More lists than these are not written out."""
MOST_VALUES = 60
"""Lists of more constants than these are not enforced: a rule has 64 bits."""
_EVERY_TYPE = Union((Object(), Array(), String(), Number(), Boolean(), Null()))
_MOST_NUMBERS = 8
_LONGEST = 60  # characters; the regexes for longer words are nested too deeply


def list_choices(node: Array) -> Node | None:
    """All lists of the node that have no item twice; None where they cannot be enforced."""
    values = None if node.items is None else _list_values(node.items)
    if node.prefix or values is None or len(values) > MOST_VALUES:
        return None
    longest = len(values)
    if node.max_items is not None:
        longest = min(longest, node.max_items)
    lengths = range(node.min_items, longest + 1)
    if sum(perm(len(values), length) for length in lengths) > MOST_LISTS:
        return replace(node, items=Constant(tuple(values)), max_items=longest, distinct=True)
    lists = [list(chosen) for length in lengths for chosen in permutations(values, length)]
    return Constant(tuple(lists)) if lists else NEVER


def _list_values(node: Node) -> list[Json] | None:
    """The scalars that a node admits, each once; None where they are others, or many."""
    match node:
        case Constant(constants):
            if any(isinstance(v, list | dict) for v in constants):
                return None
            # to Python, 1 and True are one key
            return [*{(isinstance(v, bool), v): v for v in constants}.values()]
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
    """The node without these values; None where that cannot be said."""
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
            kept = [v for v in options if not any(are_equal(v, w) for w in values)]
            return Constant(tuple(kept))
        case Boolean():
            return exclude(Constant((True, False)), values)
        case Null():
            return NEVER if None in values else node
        case String():
            return _exclude_words(node, [v for v in values if isinstance(v, str)])
        case Number():
            return _exclude_numbers(node, [v for v in values if is_number(v)])
        case Array():
            return None if any(isinstance(v, list) for v in values) else node
        case Object():
            return None if any(isinstance(v, dict) for v in values) else node
        case _:
            return None


def _exclude_words(node: String, words: list[str]) -> Node | None:
    longest = node.max_length
    words = [word for word in words if node.min_length <= len(word)]
    if longest is not None:
        words = [word for word in words if len(word) <= longest]
    if not words:
        return node
    if node.pattern is None:
        if max(map(len, words)) > _LONGEST:
            return None
        return replace(node, pattern=spell_others(words))
    automaton = compile_regexes((node.pattern,))
    if automaton is None or any(map(automaton.accepts, words)):
        return None
    return node


def spell_others(words: Iterable[str]) -> str:
    """A regex for every text but these words, without a complement: llguidance has complements of
    terminals, but none inside a regex."""
    kept = frozenset(words)
    firsts = sorted({word[0] for word in kept if word})
    options = [] if "" in kept else [""]
    for first in firsts:
        rest = spell_others(word[1:] for word in kept if word[:1] == first)
        options.append(rf"\u{{{ord(first):x}}}({rest})")
    if firsts:
        others = "".join(rf"\u{{{ord(first):x}}}" for first in firsts)
        options.append(f"[^{others}]{ANY}")
    else:
        options.append(f"(?s:.){ANY}")
    return "|".join(options)


def _exclude_numbers(node: Number, numbers: list[float]) -> Node | None:
    """The gaps between these numbers."""
    if not numbers:
        return node
    points = sorted(set(numbers))
    if "multipleOf" in node.bounds or len(points) > _MOST_NUMBERS:
        return None
    gaps: list[Node] = []
    for low, high in pairwise([None, *points, None]):
        bounds = dict(node.bounds)
        if low is not None:
            bounds["exclusiveMinimum"] = max(low, bounds.get("exclusiveMinimum", low))
        if high is not None:
            bounds["exclusiveMaximum"] = min(high, bounds.get("exclusiveMaximum", high))
        gaps.append(replace(node, bounds=bounds))
    return Union(tuple(gaps))
