"""Values at the corners of a schema: the shortest one, each alternative once, the ends of ranges.

They are few, always the same, and read off the nodes that the mask is made of.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from math import inf, nextafter

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
from grammars.schema.numbers import count_multiples, is_within

MAX_VALUES = 10
"""The limit for the values of a schema, and of each part."""
_MAX_LENGTH = 1_000  # of a text
_MAX_ITEMS = 50
_MAX_GREATEST = 24
"""How often the greatest character is taken, for the last text in character order."""
_MISSING = object()


def list_corner_values(schema: Schema) -> list[Json]:
    """Returns values of a schema, the shortest first, at most `MAX_VALUES`; of a part that has no
    short values there are none.

    Raises:
        StepsError: a pattern takes too many steps.
    """
    found = _Corners(schema.definitions).list(schema.node)
    return [value for value in found if schema.admits(value)]


class _Corners:
    """The corners of the nodes of one document."""

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions
        self._under_way: list[str] = []

    def list(self, node: Node) -> list[Json]:
        """Returns the corners of a node; [] if it only has values that contain themselves."""
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
    bounds = {**node.bounds, **node.mask_bounds}
    divisor = int(bounds.pop("multipleOf", 1))
    candidates: list[float] = [0, divisor, -divisor]
    if node.integer:
        limits = count_multiples(replace(node, bounds={**bounds, "multipleOf": divisor}))
        candidates += [int(limit) * divisor for limit in limits if abs(limit) != inf]
    else:
        candidates += [0.5, 10**22, *_find_ends(bounds, node.places)]
    yield from dict.fromkeys(number for number in candidates if is_within(number, bounds))


def _find_ends(bounds: Mapping[str, float], places: int | None) -> Iterator[float]:
    """Yields the first and the last number within bounds."""
    for keyword, bound in bounds.items():
        towards = inf if keyword.lower().endswith("minimum") else -inf
        if places is not None:
            step = 10**-places if towards > 0 else -(10**-places)
            yield round(bound, places)
            yield round(bound + step, places)
        elif keyword.startswith("exclusive"):
            yield nextafter(bound, towards)
        else:
            yield bound


def _find_texts(node: String) -> Iterator[str]:
    shortest, longest = node.min_length, node.max_length
    if node.pattern is None:
        if shortest <= _MAX_LENGTH:
            yield from ("a" * shortest, " " * max(1, shortest))
        yield "é" * min(_MAX_LENGTH if longest is None else longest, _MAX_LENGTH)
        return
    automaton = Texts((node.pattern,)).automaton
    if automaton is None:
        return
    firsts = pick_representatives(find_firsts(automaton.start.expression))
    for start in ["", _find_greatest(automaton, longest), *firsts]:
        rest = automaton.extend(
            start,
            max(0, shortest - len(start)),
            None if longest is None else longest - len(start),
        )
        if rest is not None:
            yield start + rest


def _find_greatest(automaton: Automaton, longest: int | None) -> str:
    """Returns the beginning of the last text in character order."""
    text, state = "", automaton.start
    for _ in range(_MAX_GREATEST if longest is None else min(_MAX_GREATEST, longest)):
        lasts = [characters.ranges[-1][1] for characters in find_firsts(state.expression)]
        if not lasts:
            break
        following = automaton.step(state, chr(max(lasts)))
        if following.is_dead:
            break
        text, state = text + chr(max(lasts)), following
    return text
