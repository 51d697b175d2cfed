"""Finds nodes that exclude each other: no value fits two of them.

What is true of the nodes is true of their schemas, since a node allows no less. It may allow less
where an object is closed or a format narrowed. So an object excludes another one by a missing key
only if each of them lacks a key of the other, and the texts of strings are not compared.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations, product

from grammars.limits.steps import spend
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
    Reference,
    String,
    Union,
    identify,
)
from grammars.schema.numbers import has_no_number, is_number, join_bounds
from grammars.schema.subschemas import is_list, is_object

_DEEPEST = 4  # levels of objects and lists that are compared


def find_overlaps(branches: Sequence[Node], definitions: Mapping[str, Node]) -> list[list[int]]:
    """Returns, for each branch, the indexes of others that may share a value with it."""
    overlaps: list[set[int]] = [set() for _ in branches]
    comparison = _NodeComparison(definitions)
    resolved = [_resolve(branch, definitions) for branch in branches]
    for i, j in _list_candidates(resolved):
        spend()
        if not comparison.are_disjoint(resolved[i], resolved[j], _DEEPEST):
            overlaps[i].add(j)
            overlaps[j].add(i)
    return list(map(sorted, overlaps))


def _list_candidates(branches: Sequence[Node]) -> Iterator[tuple[int, int]]:
    """Yields the pairs of branches that have to be compared. Many constants, and many objects that
    one key distinguishes, are common: those are not compared pair by pair."""
    constants: dict[int, Constant] = {}
    objects: dict[int, Object] = {}
    others: list[int] = []
    for i, branch in enumerate(branches):
        if isinstance(branch, Constant):
            constants[i] = branch
        elif isinstance(branch, Object):
            objects[i] = branch
        else:
            others.append(i)
    yield from _list_common_values(constants)
    if not _have_own_tags([*objects.values()]):
        yield from combinations(objects, 2)
    for i, constant in constants.items():
        if any(is_object(value) for value in constant.values):
            yield from ((i, j) for j in objects)
    yield from combinations(others, 2)
    yield from product(others, [*constants, *objects])


def _list_common_values(constants: Mapping[int, Constant]) -> Iterator[tuple[int, int]]:
    """Yields the pairs of constants that share a value."""
    owners: dict[Hashable, list[int]] = {}
    for i, constant in constants.items():
        spend(len(constant.values))
        for identity in dict.fromkeys(map(identify, constant.values)):  # 1 and 1.0 are one value
            before = owners.setdefault(identity, [])
            yield from ((j, i) for j in before)
            before.append(i)


def _have_own_tags(objects: Sequence[Object]) -> bool:
    """Returns whether one key distinguishes all objects; found without comparing each pair."""
    spend(len(objects))
    tags = list(map(_find_tags, objects))
    keys = set(tags[0]).intersection(*tags) if tags else set[str]()
    return any(_share_no_value([values[key] for values in tags]) for key in keys)


def _find_tags(node: Object) -> dict[str, tuple[Json, ...]]:
    """Returns the required keys with listed values, and those values."""
    tags: dict[str, tuple[Json, ...]] = {}
    for declared in node.properties:
        if declared.required and isinstance(declared.node, Constant):
            tags[declared.key] = declared.node.values
    return tags


def _share_no_value(groups: Sequence[tuple[Json, ...]]) -> bool:
    """True if no value is in two groups; it may be in one of them twice, as 1 and 1.0."""
    distinct = [set(map(identify, values)) for values in groups]
    return len(set[Hashable]().union(*distinct)) == sum(map(len, distinct))


def _resolve(node: Node, definitions: Mapping[str, Node]) -> Node:
    """Returns the node with references followed; a reference if they lead in a circle, or to a
    definition that is not complete yet."""
    seen: set[str] = set()
    while isinstance(node, Reference) and node.name not in seen:
        seen.add(node.name)
        target = definitions[node.name]
        if target == NEVER:
            return node
        node = target
    return node


class _NodeComparison:
    """Compares nodes, each pair on a few levels."""

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions

    def are_disjoint(self, a: Node, b: Node, depth: int) -> bool:
        """Returns whether clearly no value fits both."""
        spend()
        a, b = _resolve(a, self._definitions), _resolve(b, self._definitions)
        if isinstance(a, AnyValue | Reference) or isinstance(b, AnyValue | Reference):
            return False
        if NEVER in (a, b):  # a key that only a closed object forbids: its schema may allow it
            return False
        if isinstance(a, Union):
            return all(self.are_disjoint(branch, b, depth) for branch in a.branches)
        if isinstance(b, Union):
            return all(self.are_disjoint(a, branch, depth) for branch in b.branches)
        match a, b:
            case Constant(), Constant():
                spend(len(a.values) + len(b.values))
                return _share_no_value([a.values, b.values])
            case Constant(), _:
                return not any(_may_fit(value, b) for value in a.values)
            case _, Constant():
                return not any(_may_fit(value, a) for value in b.values)
            case Number(), Number():
                return _are_apart(a, b)
            case Array(), Array():
                return self._are_disjoint_lists(a, b, depth)
            case Object(), Object():
                return self._are_disjoint_objects(a, b, depth)
            case _:
                return type(a) is not type(b)

    def _are_disjoint_lists(self, a: Array, b: Array, depth: int) -> bool:
        if _is_shorter(a, b) or _is_shorter(b, a):
            return True
        for index in range(min(max(a.min_items, b.min_items), _DEEPEST)):
            x, y = a.find(index), b.find(index)
            if x is None or y is None:
                return True
            if depth and self.are_disjoint(x, y, depth - 1):
                return True
        return False

    def _are_disjoint_objects(self, a: Object, b: Object, depth: int) -> bool:
        if _lacks_key(a, b) and _lacks_key(b, a):
            return True
        if not depth:
            return False
        own = {declared.key: declared for declared in a.properties}
        spend(1 + len(own))
        for declared in b.properties:
            other = own.get(declared.key)
            if other is None or not (declared.required or other.required):
                continue  # an object without this key may fit both
            if self.are_disjoint(declared.node, other.node, depth - 1):
                return True
        return False


def _is_shorter(a: Array, b: Array) -> bool:
    return a.max_items is not None and a.max_items < b.min_items


def _lacks_key(node: Object, other: Object) -> bool:
    """Returns whether the object cannot have a key that the other one requires."""
    known = {declared.key: declared.node for declared in node.properties}
    for declared in other.properties:
        if not declared.required:
            continue
        if declared.key in known:
            if known[declared.key] == NEVER:
                return True
        elif node.find_extra(declared.key) is None:
            return True
    return False


def _may_fit(value: Json, node: Node) -> bool:
    """Returns False if the value is of another type, or a number out of bounds."""
    match node:
        case String():
            return isinstance(value, str)
        case Boolean():
            return isinstance(value, bool)
        case Null():
            return value is None
        case Number():
            return is_number(value) and not _are_apart(
                node, Number(bounds={"minimum": value, "maximum": value})
            )
        case Array():
            return is_list(value)
        case Object():
            return is_object(value)
        case _:
            return True


def _are_apart(a: Number, b: Number) -> bool:
    """Returns whether no number is within the bounds of both. Multiples have bounds that the schema
    does not have."""
    if "multipleOf" in a.bounds or "multipleOf" in b.bounds:
        return False
    return has_no_number(Number(a.integer or b.integer, join_bounds(a.bounds, b.bounds)))
