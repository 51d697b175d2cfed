"""Finds the nodes that have a (finite) value at all. Nodes without values are removed before a
grammar is built."""

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from math import inf, isinf

from grammars.limits.byte_cache import MIB, keep_results
from grammars.limits.steps import StepsError, limit_steps, spend
from grammars.regex.spelled import NOTHING, has_algebra
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
    improve_definitions,
    unite,
)
from grammars.schema.numbers import has_no_number
from grammars.schema.presence import FREE

NEVER = Union(())
_MAX_TEXT_STEPS = 10_000  # of the search for a text of a pattern


def prune(
    node: Node, definitions: Mapping[str, Node]
) -> tuple[Node, dict[str, Node], Sequence[str]]:
    """Removes alternatives, keys and definitions without values. Returns the node (`NEVER` if it
    has no value), its definitions, and the JSON pointers of optional properties that no object can
    have, since nothing fits their schemas (without those that a schema forbids by `false`)."""
    pruning = _Pruning(_find_alive(definitions))
    root = pruning.prune(node)
    rest = {name: pruning.prune(found) for name, found in definitions.items()}
    # Alternatives may have the same property.
    unwritten = [pointer for pointer in pruning.removed if pointer not in pruning.kept]
    return root, rest, unwritten


def _find_alive(definitions: Mapping[str, Node]) -> Set[str]:
    """Returns the names of the definitions that have a value. A least fixed point: at first no
    definition has a value; then those do that have one without references; and so on. Definitions
    that only infinite values would fit are never added."""
    alive = set[str]()

    def revive(name: str, node: Node) -> bool:
        if name in alive or _Pruning(alive).prune(node) == NEVER:
            return False
        alive.add(name)
        return True

    improve_definitions(definitions, revive)
    return alive


def find_cause(node: Node, definitions: Mapping[str, Node]) -> str:
    """Returns the JSON pointer of the innermost required property without a value, or ""."""
    pruning = _Pruning(_find_alive(definitions))
    pointer = ""
    while isinstance(node, Object):
        for declared in node.properties:
            if declared.required and pruning.prune(declared.node) == NEVER:
                pointer = f"{pointer}/properties/{escape(declared.key)}"
                node = declared.node
                break
        else:  # the condition on its keys excludes all values
            break
    return pointer


@keep_results("regexes", MIB)
def _has_no_text(node: String) -> bool:
    """Returns whether the length limits clearly exclude all texts of the pattern, or its own
    conditions each other."""
    shortest, longest, pattern = node.min_length, node.max_length, node.pattern
    if longest is not None and longest < shortest:
        return True
    if pattern is None or pattern == NOTHING:
        return pattern == NOTHING
    if shortest == 0 and longest is None and not has_algebra(pattern):
        return False
    most = "" if longest is None else longest
    with suppress(StepsError), limit_steps(_MAX_TEXT_STEPS):
        # The shortest text is found at once; to explore all texts takes as long as the longest is.
        automaton = Texts((pattern,)).automaton
        if automaton is not None and automaton.extend("", shortest, longest) is not None:
            return False
        return Texts((pattern, f"(?s:.{{{shortest},{most}}})")).is_empty()
    return False  # it is not known


class _Pruning:
    """Removes what has no value, given the names of the definitions that have one."""

    def __init__(self, alive: Set[str]):
        self._alive = alive
        self.kept: set[str] = set()  # pointers of properties
        self.removed: dict[str, None] = {}  # the same, in order

    def prune(self, node: Node) -> Node:
        spend()
        match node:
            case Reference(name):
                is_empty = name not in self._alive
            case Constant(values):
                is_empty = not values
            case String():
                is_empty = _has_no_text(node)
            case Number():
                is_empty = has_no_number(node)
            case Union(branches):
                pruned = [self.prune(branch) for branch in branches]
                return unite([branch for branch in pruned if branch != NEVER])
            case Object():
                return self._prune_object(node)
            case Array():
                return self._prune_array(node)
            case _:
                return node
        return NEVER if is_empty else node

    def _prune_object(self, node: Object) -> Node:
        kept: list[Property] = []
        barred: list[str] = []
        for declared in node.properties:
            inner = self.prune(declared.node)
            if inner != NEVER:
                kept.append(replace(declared, node=inner))
                self.kept.add(declared.pointer)
            elif declared.required:
                return NEVER
            else:
                barred.append(declared.key)
                if declared.source is not False:
                    self.removed[declared.pointer] = None
        pruned = self._prune_extras(replace(node, properties=tuple(kept)), barred)
        if node.presence != FREE:
            members = Unordered(kept, bool(pruned.extras), node.presence)
            if not members.is_possible:
                return NEVER
        return pruned

    def _prune_extras(self, node: Object, barred: list[str]) -> Object:
        """Returns the object, with the undeclared keys that have values and are not barred."""
        unbarred = Texts((), match_words(barred))
        kept: list[Extra] = []
        for extra in node.extras:
            inner = self.prune(extra.node)
            keys = extra.keys.intersect(unbarred)
            if inner != NEVER and not keys.is_empty():
                kept.append(replace(extra, node=inner, keys=keys))
        if kept and kept[-1].keys.is_free:
            rest = kept.pop()
            node = replace(node, additional=rest.node, additional_source=rest.source)
        else:
            node = replace(node, additional=None, additional_source=False)
        return replace(node, patterned=tuple(kept))

    def _prune_array(self, node: Array) -> Node:
        prefix: list[Node] = []
        items = self._prune_item(node.items)
        longest = inf if node.max_items is None else node.max_items
        for index, item in enumerate(node.prefix):
            inner = self.prune(item)
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
        contains = self._prune_contains(node.contains, pruned)
        counted = replace(pruned, contains=contains)
        return counted if Counted(counted).is_possible else NEVER

    def _prune_contains(self, contains: Contains, array: Array) -> Contains:
        """Returns the same for `contains`, with the prefix and items that are left of the array."""

        def prune_items(nodes: Sequence[Node | None]) -> tuple[Node | None, ...]:
            kept = [self._prune_item(node) for node in nodes[: len(array.prefix)]]
            after = None if array.items is None else self._prune_item(nodes[-1])
            return (*kept, after)

        return replace(
            contains, matching=prune_items(contains.matching), others=prune_items(contains.others)
        )

    def _prune_item(self, node: Node | None) -> Node | None:
        """Returns the node of an item; None if it has no value."""
        if node is None:
            return None
        pruned = self.prune(node)
        return None if pruned == NEVER else pruned
