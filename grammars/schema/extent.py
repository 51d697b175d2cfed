"""Bounds for the length of the shortest value of a schema: an upper bound in bytes, which a
completion may need, and a lower bound in characters, which every value has."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from grammars.regex.texts import Texts
from grammars.schema.json_values import Json
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
    Schema,
    String,
    Union,
    escape,
    improve_definitions,
)
from grammars.schema.presence import FREE

SCALAR = 24  # bytes: for a number, a short text, the tags around a value
_MAX_ROUNDS = 8  # in which the lower bound of a definition grows
PATTERN = 64  # bytes: for a short text that matches a pattern


def bound_length(schema: Schema) -> int:
    """Returns an upper bound, in bytes, for the shortest values of all nodes of the schema
    together. Each definition counts once, since a shortest value never follows a reference back to
    itself."""
    bounds = _Bounds({})
    return sum(map(bounds.measure, [schema.node, *schema.definitions.values()]))


def bound_rest(schema: Schema) -> int | None:
    """Returns an upper bound, in bytes, for the shortest completion of a value, wherever it is cut;
    None if there is no bound, since values may be nested without limit."""
    try:
        return _Bounds(schema.definitions, is_whole=True).measure(schema.node)
    except _EndlessError:
        return None


class _EndlessError(Exception):
    """Values may be nested without limit."""


class _Bounds:
    """Bounds for the shortest values and their completions; `is_whole`: definitions and nested
    values are counted at each place, and an error is raised if there is no bound."""

    def __init__(self, definitions: Mapping[str, Node], *, is_whole: bool = False):
        self._definitions = definitions
        self._is_whole = is_whole
        self._known: dict[str, int | None] = {}  # None: it is being measured

    def measure(self, node: Node) -> int:
        """Returns an upper bound, in bytes, for a shortest value or its completion."""
        match node:
            case Boolean() | Null() | Number():
                return SCALAR
            case AnyValue():
                if self._is_whole:
                    raise _EndlessError
                return SCALAR
            case Reference(name):
                return self._follow(name) if self._is_whole else SCALAR
            case Constant(values):
                return SCALAR + max(map(_measure_constant, values), default=0)
            case String(least, _, pattern):
                total = SCALAR + 6 * least  # each character may be written as \uXXXX
                return total + self._measure_patterns([pattern] if pattern else [])
            case Array():
                return self._measure_array(node)
            case Object():
                return self._measure_object(node)
            case Union(branches):
                return max(map(self.measure, branches), default=0)

    def _follow(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = None
            self._known[name] = self.measure(self._definitions[name])
        known = self._known[name]
        if known is None:
            raise _EndlessError
        return known

    def _measure_array(self, node: Array) -> int:
        total = SCALAR + sum(map(self.measure, node.prefix))
        if node.items is not None:
            total += max(1, node.min_items) * self.measure(node.items)
        if node.contains is not None:
            nodes = (*node.contains.matching, *node.contains.others)
            least = max(1, node.contains.least, node.min_items)
            for inner in nodes:
                if inner is not None:
                    total += least * self.measure(inner)
        return total

    def _measure_object(self, node: Object) -> int:
        extras = 0
        for extra in node.extras:
            extras += self.measure(extra.node) + self._measure_patterns(extra.keys.parts)
        total = SCALAR + max(1, node.presence.least) * extras
        longest = 0  # of the optional members: at most one of them is incomplete
        for declared in node.properties:
            size = _measure_constant(declared.key) + self.measure(declared.node)
            if declared.required or node.presence != FREE or not self._is_whole:
                total += size
                continue
            longest = max(longest, size)
        return total + longest

    def _measure_patterns(self, patterns: Sequence[str]) -> int:
        """Returns the bytes for a short text that matches each. The completion of a text that
        matches in part has no bound that is easy to find: `x|y{400}`."""
        if self._is_whole and patterns:
            raise _EndlessError
        return sum(PATTERN + len(pattern) for pattern in patterns)


def _measure_constant(value: Json) -> int:
    return SCALAR + len(json.dumps(value))


def measure_least(node: Node, definitions: Mapping[str, Node]) -> int:
    """Returns a lower bound for the characters of any value, if all definitions have values."""
    return _Sizes(definitions).measure(node)


def find_long_part(node: Node, definitions: Mapping[str, Node], max_length: int) -> str:
    """Returns the JSON pointer of the innermost schema or keyword whose values all have more than
    `max_length` characters; "" if it is the whole schema."""
    return _Sizes(definitions).find_cause(node, max_length)


class _Sizes:
    """Lower bounds for the characters of values."""

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions
        # Each definition counts as 0 characters at first. When one grows, those that refer to it
        # are measured again. Definitions that refer to each other grow without end only if they
        # have no value.
        self._known = dict.fromkeys(definitions, 0)
        self._rounds = dict.fromkeys(definitions, 0)
        improve_definitions(definitions, self._grow)

    def _grow(self, name: str, node: Node) -> bool:
        size = self.measure(node)
        if size <= self._known[name] or self._rounds[name] >= _MAX_ROUNDS:
            return False
        self._rounds[name] += 1
        self._known[name] = size
        return True

    def measure(self, node: Node) -> int:
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

    def find_cause(self, node: Node, max_length: int) -> str:
        """Returns the pointer of the innermost part that is too long by itself."""
        pointer = ""
        seen = set[str]()
        while True:
            match node:
                case Reference(name) if name not in seen:
                    seen.add(name)
                    if name.startswith("#"):  # other names are conjunctions, which have no pointer
                        pointer = name[1:]
                    node = self._definitions[name]
                case Object(properties):
                    required = [declared for declared in properties if declared.required]
                    longest = max(required, key=lambda one: self.measure(one.node), default=None)
                    if longest is None:
                        return f"{pointer}/minProperties"
                    if self.measure(longest.node) <= max_length:
                        return pointer
                    pointer += f"/properties/{escape(longest.key)}"
                    node = longest.node
                case Array(_, items):
                    if items is None or self.measure(items) <= max_length:
                        return f"{pointer}/minItems"
                    pointer += "/items"
                    node = items
                case String(least) if least > max_length:
                    return f"{pointer}/minLength"
                case _:
                    return pointer


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
    """Returns the fewest characters of a text that matches the pattern; 0 if not known."""
    if pattern is None:
        return 0
    automaton = Texts((pattern,)).automaton
    return 0 if automaton is None else automaton.start.least
