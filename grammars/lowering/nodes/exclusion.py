"""Nodes without some of their values."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

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

_EVERY = (Object(), Array(), String(), Number(), Boolean(), Null())
_MOST_NUMBERS = 8
_LONGEST = 60  # characters; the expressions for longer words are nested too deeply


def exclude(node: Node, values: list[Json]) -> Node | None:
    """The node without these values; None where that cannot be said."""
    match node:
        case AnyValue():
            return exclude(Union(_EVERY), values)
        case Union(branches):
            rests = [exclude(branch, values) for branch in branches]
            return None if None in rests else Union(tuple(r for r in rests if r is not None))
        case Constant(options):
            kept = (v for v in options if not any(are_equal(v, w) for w in values))
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
    words = [w for w in words if node.min_length <= len(w)]
    words = [w for w in words if longest is None or len(w) <= longest]
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
    """An expression for every text but these words, without a complement."""
    kept = frozenset(words)
    firsts = sorted({w[0] for w in kept if w})
    options = [] if "" in kept else [""]
    for first in firsts:
        rest = spell_others(w[1:] for w in kept if w[:1] == first)
        options.append(rf"\u{{{ord(first):x}}}({rest})")
    others = "".join(rf"\u{{{ord(c):x}}}" for c in firsts)
    options.append(f"[^{others}]{ANY}" if others else f"(?s:.){ANY}")
    return "|".join(options)


def _exclude_numbers(node: Number, numbers: list[float]) -> Node | None:
    points = sorted(set(numbers))
    if "multipleOf" in node.bounds or len(points) > _MOST_NUMBERS:
        return None if points else node
    if not points:
        return node
    edges = [None, *points, None]
    gaps: list[Node] = []
    for low, high in pairwise(edges):
        bounds = dict(node.bounds)
        if low is not None:
            bounds["exclusiveMinimum"] = max(low, bounds.get("exclusiveMinimum", low))
        if high is not None:
            bounds["exclusiveMaximum"] = min(high, bounds.get("exclusiveMaximum", high))
        gaps.append(replace(node, bounds=bounds))
    return Union(tuple(gaps))
