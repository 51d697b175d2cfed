"""Finds the nodes that have a (finite) value at all. Nodes without values are removed before a
grammar is built."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from math import inf, isinf

from grammars.byte_cache import MIB, keep_results
from grammars.regex.texts import Texts, match_words
from grammars.schema.counted import Counted
from grammars.schema.members import Unordered
from grammars.schema.nodes import (
    Array,
    Constant,
    Contains,
    Extra,
    Node,
    Number,
    Object,
    Property,
    Reference,
    String,
    Union,
    escape,
    find_references,
    unite,
)
from grammars.schema.numbers import has_no_number
from grammars.schema.presence import FREE
from grammars.steps import spend

NEVER = Union(())


def prune(node: Node, definitions: Mapping[str, Node]) -> tuple[Node, dict[str, Node]]:
    """Removes alternatives, keys and definitions without values.

    Returns:
        the pruned root (`Union(())` if it has no value) and the pruned definitions.
    """
    alive = _find_alive(definitions)
    return _prune(node, alive), {name: _prune(found, alive) for name, found in definitions.items()}


def _find_alive(definitions: Mapping[str, Node]) -> Set[str]:
    """Returns the names of the definitions that have a value.

    A least fixed point: at first no definition has a value; then those do that have one without
    references; and so on. Definitions that only infinite values would fit are never added.
    """
    named_by: dict[str, list[str]] = {name: [] for name in definitions}
    for name, node in definitions.items():
        for reference in find_references(node):
            named_by[reference].append(name)
    alive = set[str]()
    queue = list(definitions)
    while queue:
        name = queue.pop()
        if name not in alive and _prune(definitions[name], alive) != NEVER:
            alive.add(name)
            queue += named_by[name]  # this may be the last one that they needed
    return alive


def find_cause(node: Node, definitions: Mapping[str, Node]) -> str:
    """Returns the JSON pointer of the innermost required property without a value; "" if there is
    none."""
    alive = _find_alive(definitions)
    pointer = ""
    while isinstance(node, Object):
        for declared in node.properties:
            if declared.required and _prune(declared.node, alive) == NEVER:
                pointer = f"{pointer}/properties/{escape(declared.key)}"
                node = declared.node
                break
        else:  # the condition on its keys excludes all values
            break
    return pointer


def _prune(node: Node, alive: Set[str]) -> Node:
    """Returns the node without parts that have no value, if `alive` are the definitions with
    values."""
    spend()
    match node:
        case Reference(name):
            is_empty = name not in alive
        case Constant(values):
            is_empty = not values
        case String():
            is_empty = _has_no_text(node)
        case Number():
            is_empty = has_no_number(node)
        case Union(branches):
            pruned = [_prune(branch, alive) for branch in branches]
            return unite([branch for branch in pruned if branch != NEVER])
        case Object():
            return _prune_object(node, alive)
        case Array():
            return _prune_array(node, alive)
        case _:
            return node
    return NEVER if is_empty else node


@keep_results("regexes", MIB)
def _has_no_text(node: String) -> bool:
    """Returns whether the length limits clearly exclude all texts of the pattern."""
    shortest, longest, pattern = node.min_length, node.max_length, node.pattern
    if longest is not None and longest < shortest:
        return True
    if pattern is None or (shortest == 0 and longest is None):
        return False
    most = "" if longest is None else longest
    return Texts((pattern, f"(?s:.{{{shortest},{most}}})")).is_empty()


def _prune_object(node: Object, alive: Set[str]) -> Node:
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
    pruned = _prune_extras(replace(node, properties=tuple(kept)), barred, alive)
    if node.presence != FREE:
        members = Unordered(kept, bool(pruned.extras), node.presence)
        if not members.is_possible:
            return NEVER
    return pruned


def _prune_extras(node: Object, barred: list[str], alive: Set[str]) -> Object:
    """Returns the object, with the undeclared keys that have values and are not barred."""
    unbarred = Texts((), match_words(barred))
    kept: list[Extra] = []
    for extra in node.extras:
        inner = _prune(extra.node, alive)
        keys = extra.keys.intersect(unbarred)
        if inner != NEVER and not keys.is_empty():
            kept.append(replace(extra, node=inner, keys=keys))
    if kept and kept[-1].keys.is_free:
        rest = kept.pop()
        node = replace(node, additional=rest.node, additional_source=rest.source)
    else:
        node = replace(node, additional=None, additional_source=False)
    return replace(node, patterned=tuple(kept))


def _prune_array(node: Array, alive: Set[str]) -> Node:
    prefix: list[Node] = []
    items = _prune_item(node.items, alive)
    longest = inf if node.max_items is None else node.max_items
    for index, item in enumerate(node.prefix):
        inner = _prune(item, alive)
        if inner == NEVER:
            longest = min(index, longest)
            items = None
            break
        prefix.append(inner)
    if items is None:
        longest = min(longest, len(prefix))
    if longest < node.min_items:
        return NEVER
    pruned = replace(
        node,
        prefix=tuple(prefix),
        items=items,
        max_items=None if isinf(longest) else int(longest),
    )
    if node.contains is None:
        return pruned
    contains = _prune_contains(node.contains, pruned, alive)
    counted = replace(pruned, contains=contains)
    return counted if Counted(counted).is_possible else NEVER


def _prune_contains(contains: Contains, array: Array, alive: Set[str]) -> Contains:
    """Returns the same for `contains`, with the prefix and items that are left of the array."""

    def prune_items(nodes: Sequence[Node | None]) -> tuple[Node | None, ...]:
        kept = [_prune_item(node, alive) for node in nodes[: len(array.prefix)]]
        after = None if array.items is None else _prune_item(nodes[-1], alive)
        return (*kept, after)

    return replace(
        contains,
        matching=prune_items(contains.matching),
        others=prune_items(contains.others),
    )


def _prune_item(node: Node | None, alive: Set[str]) -> Node | None:
    """Returns the node of an item; None if it has no value."""
    if node is None:
        return None
    pruned = _prune(node, alive)
    return None if pruned == NEVER else pruned
