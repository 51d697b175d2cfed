"""The content of nested tags as a tree, and its conversion to a value by the schema."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import cast

from grammars.regex.texts import SPACES, Texts, match_words
from grammars.schema.json_values import Json
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Node,
    Null,
    Number,
    Object,
    String,
    flatten,
)
from grammars.schema.numbers import Reading, are_equal, find_whole, is_within
from grammars.spelling.coerce import read_words
from grammars.spelling.styles import spell_scalar
from grammars.wire.format import MAX_NAME_LENGTH, JsonStyle, NestedArguments, is_taggable

KEY = rf"[^<>\/\x00-\x20{SPACES}][^<>\x00-\x20{SPACES}]{{0,{MAX_NAME_LENGTH - 1}}}"
"""A regular expression for an undeclared key."""

ANY: tuple[Flat, ...] = (Null(), Boolean(), Number(), Array(), Object(), String())
_ANYTHING = AnyValue()


def is_key(key: str) -> bool:
    """Returns whether a tag can have this name."""
    return is_taggable(key) and not key.startswith("/")


def find_extras(node: Object, hole: NestedArguments) -> list[tuple[Texts, Node]]:
    """Returns the undeclared keys that can be written, with the nodes of their values."""
    taken = Texts((KEY,), match_words([hole.item, *(p.key for p in node.properties)]))
    found = ((taken.intersect(extra.keys), extra.node) for extra in node.extras)
    return [(keys, value) for keys, value in found if not keys.is_empty()]


def is_text(text: str, hole: NestedArguments) -> bool:
    """Returns whether the text can stand between tags."""
    return (text + hole.mark).find(hole.mark) == len(text)


def is_writable(value: Json, hole: NestedArguments) -> bool:
    """Returns whether a constant can stand between tags."""
    match value:
        case str():
            return is_text(value, hole)
        case list():
            return all(is_writable(item, hole) for item in cast(list[Json], value))
        case dict():
            members = cast(dict[str, Json], value).items()
            return all(is_key(key) and is_writable(member, hole) for key, member in members)
        case _:
            return True


@dataclass
class Tree:
    """The content of an element: text, or further elements."""

    text: str = ""
    members: "list[tuple[str, Tree]]" = field(default_factory=list["tuple[str, Tree]"])


def part(nodes: Iterable[Flat]) -> Iterator[Flat]:
    """Splits the nodes into nodes of one type each."""
    for node in nodes:
        match node:
            case AnyValue():
                yield from ANY
            case Constant(values):
                yield from (Constant((value,)) for value in values)
            case _:
                yield node


class TreeReader:
    """Converts trees to values by a schema.

    Args:
        hole: how the format writes the arguments.
        definitions: the nodes that references name.
    """

    def __init__(self, hole: NestedArguments, definitions: Mapping[str, Node]):
        self._item = hole.item
        self._definitions = definitions
        self._known: dict[tuple[int, int], Reading] = {}

    def read(self, tree: Tree, node: Node) -> Reading:
        """Returns the first value that fits. JSON comes before text; an empty tree is text
        first."""
        key = id(tree), id(node)
        if key not in self._known:
            readings = (self._read(tree, branch) for branch in self._sort(tree, node))
            found = [reading for reading in readings if reading is not None]
            best = next((reading for reading in found if reading[1]), None)
            self._known[key] = best or (found or [(self.read(tree, _ANYTHING)[0], False)])[0]
        return self._known[key]

    def members(self, tree: Tree, objects: Sequence[Object]) -> dict[str, Json]:
        """Returns the arguments of a tool, as the first object that they fit."""
        readings = [self._object(tree, node) for node in objects or [Object()]]
        best = next((r for r in readings if r[1]), readings[0])
        return cast(dict[str, Json], best[0])

    def member(self, key: str, tree: Tree, node: Object) -> Json:
        """Returns one argument of an object."""
        found = node.find(key)
        return self.read(tree, _ANYTHING if found is None else found.node)[0]

    def _sort(self, tree: Tree, node: Node) -> list[Flat]:
        empty = not tree.members and not tree.text
        order = (Null, Boolean, Number, Array, Object, String)
        kinds = (String, *order) if empty else order

        def rank(branch: Flat) -> tuple[int, bool]:
            if isinstance(branch, Constant):
                branch = next(n for n in ANY if _is_kind(branch.values[0], n))
            whole = isinstance(branch, Number) and branch.integer
            return kinds.index(type(branch)), not whole

        return sorted(part(flatten(node, self._definitions)), key=rank)

    def _read(self, tree: Tree, node: Flat) -> Reading | None:
        """Returns the tree as a value of this type; None if it has another type."""
        match node:
            case Constant(values):
                return (values[0], True) if self._spells(tree, values[0]) else None
            case Array() if tree.members or not tree.text.strip():
                return self._array(tree, node)
            case Object() if tree.members or not tree.text.strip():
                return self._object(tree, node)
            case String() if not tree.members:
                return tree.text, node.accepts(tree.text)
            case Number() | Boolean() | Null() if not tree.members:
                values = map(partial(_settle, node=node), read_words(tree.text))
                value = next((v for v in values if _is_kind(v, node)), None)
                if value is None:
                    return (None, True) if _is_null(tree, node) else None
                return value, not isinstance(node, Number) or is_within(value, node.bounds)
            case _:
                return None

    def _array(self, tree: Tree, node: Array) -> Reading | None:
        if any(key != self._item for key, _ in tree.members):
            return None
        values, fits = list[Json](), node.min_items <= len(tree.members)
        for i, (_, member) in enumerate(tree.members):
            inner = node.find(i)
            value, fit = self.read(member, _ANYTHING if inner is None else inner)
            values.append(value)
            fits = fits and fit and inner is not None
        return values, fits and (node.max_items is None or len(values) <= node.max_items)

    def _object(self, tree: Tree, node: Object) -> Reading:
        values, fits = dict[str, Json](), True
        for key, member in tree.members:
            inner = node.find(key)
            value, fit = self.read(member, _ANYTHING if inner is None else inner.node)
            values.setdefault(key, value)
            fits = fits and fit and inner is not None
        return values, fits and all(p.key in values for p in node.properties if p.required)

    def _spells(self, tree: Tree, value: Json) -> bool:
        """Returns whether the tree is a spelling of the value."""
        match value:
            case str():
                return not tree.members and tree.text == value
            case list():
                members = [(self._item, item) for item in cast(list[Json], value)]
            case dict():
                members = list(cast(dict[str, Json], value).items())
            case _:
                words = read_words(tree.text)
                return not tree.members and any(are_equal(v, value) for v in words)
        trees, parts = (sorted(pairs, key=itemgetter(0)) for pairs in (tree.members, members))
        same = [key for key, _ in trees] == [key for key, _ in parts]
        same = same and (bool(trees) or not tree.text.strip())
        pairs = zip(trees, parts, strict=same)
        return same and all(self._spells(inner, part) for (_, inner), (_, part) in pairs)


def _is_kind(value: Json, node: Flat) -> bool:
    """Returns whether the value has the type of the node."""
    match node:
        case Null():
            return value is None
        case Boolean():
            return isinstance(value, bool)
        case Number(integer):
            kinds = int if integer else int | float
            return isinstance(value, kinds) and not isinstance(value, bool)
        case String():
            return isinstance(value, str)
        case Array():
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _settle(value: Json, node: Flat) -> Json:
    """Returns the value; a float that is an integer becomes one if the node requires it."""
    is_whole = isinstance(node, Number) and node.integer
    whole = find_whole(value) if is_whole else None
    return value if whole is None else whole


def _is_null(tree: Tree, node: Flat) -> bool:
    return isinstance(node, Null) and None in read_words(tree.text)


def spell_words(value: Json) -> tuple[str, ...]:
    """Returns all spellings of a scalar."""
    return (value,) if isinstance(value, str) else spell_scalar(value, JsonStyle())
