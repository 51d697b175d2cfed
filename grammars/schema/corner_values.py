"""Values at the corners of a schema: the shortest one, each alternative once, the ends of ranges.

They are few, always the same, and read off the nodes that the mask is made of.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from math import inf

from grammars.limits.steps import spend
from grammars.regex.automaton import Automaton
from grammars.regex.characters import pick_representatives
from grammars.regex.expressions import find_firsts
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
)
from grammars.schema.numbers import count_multiples, express_number

MAX_VALUES = 10
"""The limit for the values of a schema, and of each part."""
_MAX_LENGTH = 1_000  # of a text
_MAX_ITEMS = 50
_MAX_GREATEST = 24
"""Characters of the last text in character order before its shortest end."""
_MISSING = object()


def list_corner_values(schema: Schema) -> list[Json]:
    """Returns values of a schema, the shortest first, at most `MAX_VALUES`; of a part that has no
    short values there are none. Raises StepsError."""
    return [value for value in draw_corner_values(schema) if schema.admits(value)]


def draw_corner_values(schema: Schema) -> list[Json]:
    """Returns the same, with those that do not fit a keyword which the mask does not enforce."""
    return _Corners(schema.definitions).list(schema.node)


class _Corners:
    """The corners of the nodes of one document."""

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions
        self._under_way: list[str] = []

    def list(self, node: Node) -> list[Json]:
        """Returns the corners of a node; [] if it only has values that contain themselves."""
        spend()
        found = list(islice(self._find(node), 2 * MAX_VALUES))
        distinct = {json.dumps(value): value for value in found}
        return list(islice(distinct.values(), MAX_VALUES))

    def _find(self, node: Node) -> Iterator[Json]:
        match node:
            case AnyValue():
                yield from ("", 0)
            case Constant(values):
                yield from values
            case Boolean():
                yield from (False, True)
            case Null():
                yield None
            case Number():
                yield from _find_numbers(node)
            case String():
                yield from _find_texts(node)
            case Array():
                yield from self._find_lists(node)
            case Object():
                yield from self._find_objects(node)
            case Union(branches):
                # the first corners of all branches, then the second ones
                for corners in zip_longest(*map(self.list, branches), fillvalue=_MISSING):
                    yield from (corner for corner in corners if corner is not _MISSING)
            case Reference(name):
                if name not in self._under_way:
                    self._under_way.append(name)
                    found = self.list(self._definitions[name])
                    self._under_way.pop()
                    yield from found

    def _find_lists(self, node: Array) -> Iterator[Json]:
        parts = [self.list(part) for part in node.prefix]
        rest = [] if node.items is None else self.list(node.items)
        if [] in parts:
            parts, rest = parts[: parts.index([])], []
        longest = _MAX_ITEMS if rest else len(parts)
        if node.max_items is not None:
            longest = min(longest, node.max_items)
        if node.min_items > longest:
            return
        yield _pick_items(parts, rest, node.min_items)
        size = max(node.min_items, min(longest, len(parts) + 1))
        for turn in range(max(map(len, (*parts, rest)))):
            yield _pick_items(parts, rest, size, turn)

    def _find_objects(self, node: Object) -> Iterator[Json]:
        members = {member.key: self.list(member.node) for member in node.properties}
        required = [member.key for member in node.properties if member.required]
        if not all(members[key] for key in required):
            return
        for extra in node.extras[:MAX_VALUES]:
            key = extra.keys.extend("")
            if key is not None:
                members.setdefault(key, self.list(extra.node))
        yield {key: members[key][0] for key in required}
        for turn in range(max(map(len, members.values()), default=0)):
            yield {key: values[turn % len(values)] for key, values in members.items() if values}


def _pick_items(
    parts: Sequence[Sequence[Json]], rest: Sequence[Json], size: int, turn: int = 0
) -> list[Json]:
    """Returns a list; neighbours differ if they can."""
    items: list[Json] = []
    for index in range(size):
        corners = parts[index] if index < len(parts) else rest
        items.append(corners[(turn + index) % len(corners)])
    return items


def _find_numbers(node: Number) -> Iterator[Json]:
    divisor = int(node.bounds.get("multipleOf", 1))
    if divisor == 1:
        yield from map(json.loads, _spell(express_number(node), 0, None))
        return
    first, last = count_multiples(node)
    yield from (int(factor) * divisor for factor in (first, last) if abs(factor) != inf)
    yield from (factor * divisor for factor in (0, 1, -1) if first <= factor <= last)


def _find_texts(node: String) -> Iterator[str]:
    shortest, longest = node.min_length, node.max_length
    if node.pattern is not None:
        yield from _spell(node.pattern, shortest, longest)
    elif shortest <= _MAX_LENGTH:
        yield from ("a" * shortest, " " * max(1, shortest))
        yield "é" * (_MAX_LENGTH if longest is None else min(longest, _MAX_LENGTH))


def _spell(regex: str | None, shortest: int, longest: int | None) -> Iterator[str]:
    """Yields the shortest text that begins with each kind of character, and the last one in
    character order; before them, those of all texts."""
    automaton = None if regex is None else Texts((regex,)).automaton
    if automaton is None:
        return
    for first in ("", *pick_representatives(find_firsts(automaton.start.expression))):
        for start in (first, _find_greatest(automaton, first, longest)):
            fewest, most = max(0, shortest - len(start)), None
            if longest is not None:
                most = longest - len(start)
            rest = automaton.extend(start, fewest, most)
            if rest is not None:
                yield start + rest


def _find_greatest(automaton: Automaton, text: str, longest: int | None) -> str:
    """Continues a text with the greatest characters, up to a length."""
    state = automaton.start
    for character in text:
        state = automaton.step(state, character)
    while len(text) < (_MAX_GREATEST if longest is None else min(_MAX_GREATEST, longest)):
        lasts = [characters.ranges[-1][1] for characters in find_firsts(state.expression)]
        if not lasts:
            break
        greatest = chr(max(lasts))
        state, text = automaton.step(state, greatest), text + greatest
    return text
