"""Bounds of the shortest value of a schema: from above in bytes, so much a completion may write;
and from below in characters, so much every value has."""

import json
from collections.abc import Iterable, Mapping
from typing import cast

from grammars.regex.texts import Texts
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Extra,
    Json,
    Node,
    Null,
    Number,
    Object,
    Reference,
    Schema,
    String,
    Union,
    escape,
    find_references,
)
from grammars.steps import spend

SCALAR = 24  # bytes; a number, a short text, the tags around a value
PATTERN = 64  # bytes; a short text that fits an expression


def bound_length(schema: Schema) -> int:
    """The bytes of a shortest value below any node of the schema, at most.

    Every definition is counted once: a reference that leads back is not part of a shortest value.
    """
    return _measure_all([schema.node, *schema.definitions.values()])


def _measure_all(nodes: Iterable[Node | None]) -> int:
    return sum(_measure(node) for node in nodes if node is not None)


def _measure(node: Node) -> int:
    match node:
        case AnyValue() | Boolean() | Null() | Number() | Reference():
            return SCALAR
        case Constant(values):
            return SCALAR + max(map(_measure_constant, values), default=0)
        case String(least, _, pattern):
            total = SCALAR + 6 * least  # each character may have to be written as \uXXXX
            if pattern:
                total += _measure_pattern(pattern)
            return total
        case Array(prefix, items, least, _, contains):
            total = SCALAR + _measure_all(prefix) + max(1, least) * _measure_all([items])
            if contains is not None:
                nodes = (*contains.matching, *contains.others)
                total += max(1, contains.least, least) * _measure_all(nodes)
            return total
        case Object(properties):
            extras = sum(map(_measure_extra, node.extras))
            total = SCALAR + max(1, node.presence.least) * extras
            for declared in properties:
                total += _measure_constant(declared.key) + _measure(declared.node)
            return total
        case Union(branches):
            return max(map(_measure, branches), default=0)


def _measure_extra(extra: Extra) -> int:
    return _measure(extra.node) + sum(map(_measure_pattern, extra.keys.parts))


def _measure_pattern(pattern: str) -> int:
    return PATTERN + len(pattern)


def _measure_constant(value: Json) -> int:
    return SCALAR + len(json.dumps(value))


def measure_least(node: Node, definitions: Mapping[str, Node]) -> int:
    """The characters that every value has at least, however it is spelled.

    Args:
        node: the schema.
        definitions: its definitions; each admits a value.
    """
    return _Sizes(definitions).measure(node)


def find_long_part(node: Node, definitions: Mapping[str, Node], most: int) -> str:
    """The JSON pointer of the innermost schema, or of its keyword, of which no value has so few
    characters; "" if that is the whole schema."""
    return _Sizes(definitions).find_cause(node, most)


class _Sizes:
    """The characters that values have at least.

    Args:
        definitions: that nodes refer to.
    """

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions
        # Until it is known that a definition needs more it is taken for one of no characters; then
        # it is asked again whenever one that it names has grown. Those that name each other grow
        # for ever only if they admit no value.
        self._known = dict.fromkeys(definitions, 0)
        self._find_all()

    def _find_all(self) -> None:
        named_by: dict[str, list[str]] = {name: [] for name in self._definitions}
        for name, node in self._definitions.items():
            for reference in find_references(node):
                named_by[reference].append(name)
        rounds = dict.fromkeys(self._definitions, 0)
        queue = list(self._definitions)
        while queue:
            name = queue.pop()
            size = self.measure(self._definitions[name])
            if size > self._known[name] and rounds[name] < _MOST_ROUNDS:
                rounds[name] += 1
                self._known[name] = size
                queue += named_by[name]

    def measure(self, node: Node) -> int:
        """The least characters of a value."""
        spend()
        match node:
            case AnyValue() | Boolean() | Null() | Number():
                return 1
            case Reference(name):
                return self._known[name]
            case Constant(values):
                return min(map(_count_characters, values), default=0)
            case String(least, _, pattern):
                return max(least, _measure_shortest(pattern))
            case Array():
                return self._measure_array(node)
            case Object(properties):
                size = node.presence.least
                for declared in properties:
                    if declared.required:
                        size += len(declared.key) + self.measure(declared.node)
                return size
            case Union(branches):
                return min(map(self.measure, branches), default=0)

    def _measure_array(self, node: Array) -> int:
        size = 0
        for item in node.prefix[: node.min_items]:
            size += self.measure(item)
        missing = node.min_items - len(node.prefix)
        if node.items is not None and missing > 0:
            size += missing * max(1, self.measure(node.items))
        if node.contains is not None:
            size = max(size, node.contains.least)
        return size

    def find_cause(self, node: Node, most: int) -> str:
        """The pointer of the innermost part that alone is too long."""
        pointer = ""
        seen = set[str]()
        while True:
            match node:
                case Reference(name) if name not in seen:
                    seen.add(name)
                    if name.startswith("#"):  # others are conjunctions, which stand where they are
                        pointer = name[1:]
                    node = self._definitions[name]
                case Object(properties):
                    required = [declared for declared in properties if declared.required]
                    longest = max(required, key=lambda one: self.measure(one.node), default=None)
                    if longest is None:
                        return f"{pointer}/minProperties"
                    if self.measure(longest.node) <= most:
                        return pointer
                    pointer += f"/properties/{escape(longest.key)}"
                    node = longest.node
                case Array(_, items):
                    if items is None or self.measure(items) <= most:
                        return f"{pointer}/minItems"
                    pointer += "/items"
                    node = items
                case String(least) if least > most:
                    return f"{pointer}/minLength"
                case _:
                    return pointer


_MOST_ROUNDS = 8


def _count_characters(value: Json) -> int:
    match value:
        case str():
            return len(value)
        case list():
            return sum(map(_count_characters, cast(list[Json], value)))
        case dict():
            members = cast(dict[str, Json], value)
            return sum(map(len, members)) + sum(map(_count_characters, members.values()))
        case _:
            return 1


def _measure_shortest(pattern: str | None) -> int:
    """The characters that a text of the pattern has at least; 0 where that is not known."""
    if pattern is None:
        return 0
    automaton = Texts((pattern,)).automaton
    return 0 if automaton is None else automaton.start.least
