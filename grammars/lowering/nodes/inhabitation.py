"""Which nodes admit a (finite) value at all; the others are taken out before a grammar is made."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, floor

from grammars.regex.texts import Texts, match_words
from grammars.schema.counted import Counted
from grammars.schema.members import Unordered
from grammars.schema.nodes import (
    Array,
    Constant,
    Node,
    Number,
    Object,
    Property,
    Reference,
    String,
    Union,
    escape,
)
from grammars.schema.presence import FREE

NEVER = Union(())


def prune(node: Node, definitions: Mapping[str, Node]) -> tuple[Node, dict[str, Node]]:
    """The same schema without alternatives, keys and definitions that admit no value.

    Returns:
        the pruned root (`Union(())` if it admits nothing) and the pruned definitions.
    """
    alive: frozenset[str] = frozenset()
    while True:
        pruned = {name: _prune(d, alive) for name, d in definitions.items()}
        now = frozenset(name for name, d in pruned.items() if d != NEVER)
        if now == alive:
            return _prune(node, alive), pruned
        alive = now


def find_cause(node: Node, definitions: Mapping[str, Node]) -> str:
    """The JSON pointer of the innermost required property that no value fits; "" if none does."""
    alive = frozenset(name for name, d in prune(node, definitions)[1].items() if d != NEVER)
    where = ""
    while isinstance(node, Object):
        required = (p for p in node.properties if p.required)
        empty = next((p for p in required if _prune(p.node, alive) == NEVER), None)
        if empty is None:  # it is empty through what its keys have to fulfil
            return where
        where, node = f"{where}/properties/{escape(empty.key)}", empty.node
    return where


def _prune(node: Node, alive: frozenset[str]) -> Node:
    match node:
        case Reference(name):
            return node if name in alive else NEVER
        case Constant(values):
            return node if values else NEVER
        case String():
            return NEVER if _has_no_text(node) else node
        case Number():
            return NEVER if _is_empty(node) else node
        case Union(branches):
            kept = tuple(b for b in (_prune(b, alive) for b in branches) if b != NEVER)
            return kept[0] if len(kept) == 1 else Union(kept)
        case Object():
            return _prune_object(node, alive)
        case Array():
            return _prune_array(node, alive)
        case _:
            return node


@lru_cache(maxsize=512)
def _has_no_text(node: String) -> bool:
    """Do the lengths leave no text of the pattern, plainly?"""
    shortest, longest, pattern = node.min_length, node.max_length, node.pattern
    if longest is not None and longest < shortest:
        return True
    if pattern is None or (shortest == 0 and longest is None):
        return False
    most = "" if longest is None else longest
    return Texts((pattern, f"(?s:.{{{shortest},{most}}})")).is_empty()


def _is_empty(node: Number) -> bool:
    """Do the bounds leave no number?"""
    inf = float("inf")
    low, high = node.bounds.get("minimum", -inf), node.bounds.get("maximum", inf)
    above, below = (
        node.bounds.get("exclusiveMinimum", -inf),
        node.bounds.get("exclusiveMaximum", inf),
    )
    if not node.integer:
        return max(low, above) > min(high, below) or high <= above or below <= low
    first = max(low if low == -inf else ceil(low), above if above == -inf else floor(above) + 1)
    last = min(high if high == inf else floor(high), below if below == inf else ceil(below) - 1)
    return first > last


def _prune_object(node: Object, alive: frozenset[str]) -> Node:
    kept: list[Property] = []
    barred: list[str] = []
    for declared in node.properties:
        inner = _prune(declared.node, alive)
        if inner != NEVER:
            kept.append(replace(declared, node=inner))
        elif declared.required:
            return NEVER
        else:
            barred.append(declared.key)
    pruned = _bar(replace(node, properties=tuple(kept)), barred, alive)
    is_open = bool(pruned.extras)
    if node.presence != FREE and not Unordered(kept, is_open, node.presence).is_possible:
        return NEVER
    return pruned


def _bar(node: Object, barred: list[str], alive: frozenset[str]) -> Object:
    """Undeclared keys that something fits; none of the barred ones is among them."""
    without = Texts((), match_words(barred))
    extras = [replace(e, node=_prune(e.node, alive)) for e in node.extras]
    found = [replace(e, keys=e.keys.both(without)) for e in extras if e.node != NEVER]
    kept = tuple(extra for extra in found if not extra.keys.is_empty())
    if kept and (rest := kept[-1]).keys.is_free:
        node = replace(node, additional=rest.node, additional_source=rest.source)
        return replace(node, patterned=kept[:-1])
    return replace(node, additional=None, additional_source=False, patterned=kept)


def _prune_array(node: Array, alive: frozenset[str]) -> Node:
    prefix: list[Node] = []
    rest = None if node.items is None else _prune(node.items, alive)
    rest = None if rest == NEVER else rest
    longest = node.max_items
    for i, item in enumerate(node.prefix):
        inner = _prune(item, alive)
        if inner == NEVER:
            longest = i if longest is None else min(i, longest)
            rest = None
            break
        prefix.append(inner)
    if rest is None:
        longest = len(prefix) if longest is None else min(longest, len(prefix))
    if longest is not None and longest < node.min_items:
        return NEVER
    pruned = replace(node, prefix=tuple(prefix), items=rest, max_items=longest)
    if node.contains is None:
        return pruned

    def prune(track: Sequence[Node | None]) -> tuple[Node | None, ...]:
        places = [*track[: len(prefix)], track[-1] if rest else None]
        kept = (place and _prune(place, alive) for place in places)
        return tuple(None if place == NEVER else place for place in kept)

    matching, others = map(prune, (node.contains.matching, node.contains.others))
    contains = replace(node.contains, matching=matching, others=others)
    counted = replace(pruned, contains=contains)
    return counted if Counted(counted).is_possible else NEVER
