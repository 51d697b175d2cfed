"""Damaged inputs as Hypothesis strategies: good ones with a few changes, which shrink to few."""

import copy
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from grammars.schema.json_values import Json
from grammars.suite.strategies import mutations

CHANGES = st.sampled_from([1, 1, 1, 2, 2, 3, 4, 0])
"""How many there are."""
ODD_VALUES: tuple[Json, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    1e308,
    -0.0,
    float("nan"),
    float("inf"),
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    "",
    "x",
    "null",
    "\x00",
    "\ud800",
    "é\U0001f600",
    "x" * 2000,
    "../../etc/passwd",
    "<|im_start|>",
    "<tool_call>",
    "</think>",
    "{{ 1 }}",
    [],
    [[]],
    [None],
    {},
    {"": ""},
    {"type": "object"},
    {"$ref": "#"},
    {"type": []},
    {"x": {"x": {"x": [{"x": None}]}}},
)
ODD_NAMES = ("", "x", "type", "$ref", "$defs", "not", "\ud800", "__class__", "0", "a/b~c", "é")


def find_places(value: Json) -> list[tuple[Json, Any]]:
    """Returns all members and items of a JSON value: what holds each, and its key or index."""
    places: list[tuple[Json, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys: Sequence[Any] = ()
        if isinstance(holder, dict):
            keys = [*holder]
        elif isinstance(holder, list):
            keys = range(len(holder))
        for key in keys:
            places.append((holder, key))
            waiting.append(holder[key])
    return places


@st.composite
def damaged_json(draw: st.DrawFn, bases: Sequence[Json]) -> Json:
    """One of the bases with a few members replaced, removed, added, or put elsewhere."""
    value = copy.deepcopy(draw(st.sampled_from(bases)))
    for _ in range(draw(CHANGES)):
        places = find_places(value)
        if not places:
            break
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["replace", "remove", "add", "move", "wrap"])):
            case "replace":
                holder[key] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
            case "remove":
                del holder[key]
            case "add" if isinstance(holder, dict):
                name = draw(st.sampled_from(ODD_NAMES))
                holder[name] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
            case "move":
                other, name = places[draw(st.integers(0, len(places) - 1))]
                holder[key] = copy.deepcopy(other[name])
            case "wrap":
                holder[key] = draw(st.sampled_from([list, _name]))([holder[key]])
            case _:
                pass
    return value


def _name(values: list[Json]) -> Json:
    return {"items": values[0]}


def damaged_text(bases: Sequence[str], pieces: Sequence[str]) -> st.SearchStrategy[str]:
    """One of the bases, or one with a few parts left out, repeated or added."""
    base = st.sampled_from(bases)
    return base | base.flatmap(lambda text: mutations(text, pieces))


@st.composite
def damaged_bytes(draw: st.DrawFn, bases: Sequence[bytes]) -> bytes:
    """One of the bases with a few bytes changed, cut out or put in, or cut off at the end."""
    data = draw(st.sampled_from(bases))
    for _ in range(draw(CHANGES)):
        start = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["set", "cut", "insert", "end", "number"])):
            case "set":
                new = draw(st.binary(min_size=1, max_size=8))
                data = data[:start] + new + data[start + len(new) :]
            case "cut":
                data = data[:start] + data[start + draw(st.integers(1, 64)) :]
            case "insert":
                data = data[:start] + draw(st.binary(max_size=16)) + data[start:]
            case "end":
                data = data[:start]
            case _:
                size = draw(st.sampled_from([1, 4, 8]))
                number = draw(st.sampled_from([0, 1, 127, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
                new = (number % 256**size).to_bytes(size, "little")
                data = data[:start] + new + data[start + size :]
    return data


def show(value: Any) -> str:
    """Returns an input in one line: JSON where it is some."""
    if isinstance(value, bytes | str):
        return repr(value)
    return json.dumps(value)
