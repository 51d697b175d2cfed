"""The place of each token in its turn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.model.trace.places import (
    JsonPath,
    TokenPlace,
    TracedPart,
    decode_pieces,
    find_places,
)
from constrained.prompt.tools.shapes import read_tools
from grammars.parse.parser import Parser
from grammars.parse.render import render
from grammars.schema.pointers import point_to
from grammars.turn import State, ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS, HERMES
from tests.templates import tool
from tests.text_strategies import KEYS

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)


def list_scalars(value: Any, steps: tuple[str | int, ...] = ()) -> list[str]:
    """The pointers of all scalars of a value, in the order in which they are written."""
    if isinstance(value, dict):
        return [p for key, part in value.items() for p in list_scalars(part, (*steps, key))]
    if isinstance(value, list):
        return [p for i, part in enumerate(value) for p in list_scalars(part, (*steps, i))]
    return [point_to(steps)]


@given(VALUES)
def test_the_path_of_each_scalar_is_met_in_order(value: Any):
    path = JsonPath()
    met = [""]
    for char in json.dumps(value):
        path.feed(char)
        if path.pointer != met[-1]:
            met.append(path.pointer)
    assert path.pointer == "" or not isinstance(value, dict | list)
    remaining = iter(met)
    assert all(pointer in remaining for pointer in list_scalars(value))


@given(VALUES, st.integers(1, 5))
def test_the_path_does_not_depend_on_the_cut(value: Any, size: int):
    text = json.dumps(value)
    whole, pieces = JsonPath(), JsonPath()
    for start in range(0, len(text), size):
        piece = text[start : start + size]
        pieces.feed(piece)
        for char in piece:
            whole.feed(char)
        assert pieces.pointer == whole.pointer


def place_all(format: Format, turn: Turn, given: list[Any]) -> list[TokenPlace]:
    """The places of all bytes of a turn, each a token of its own."""
    tools = read_tools(given)
    state = State(calls=0)
    text = render(turn, format, tools, state).encode()
    parser = Parser(format, tools, state, stream=True)
    pieces = decode_pieces([bytes([byte]) for byte in text])
    return find_places(parser, pieces, is_json=False)


def test_the_places_of_a_turn():
    given = [tool("f", {"city": {"type": "string"}, "days": {"type": "array"}})]
    turn = Turn("Hi.", "Hm.", (ToolCall("f", {"city": "Rome", "days": [1, 2]}),))
    places = place_all(HERMES, turn, given)
    met: list[TokenPlace] = []
    for place in places:
        if not met or met[-1] != place:
            met.append(place)
    for part in (
        TracedPart.REASONING,
        TracedPart.CONTENT,
        TracedPart.ARGUMENTS,
        TracedPart.STRUCTURE,
    ):
        assert part in {place.part for place in met}
    order = [place.pointer for place in met if place.part is TracedPart.ARGUMENTS]
    assert order.index("/city") < order.index("/days/0") < order.index("/days/1")


def test_each_argument_has_a_place_in_every_format():
    given = [tool("f", {"city": {"type": "string"}, "count": {"type": "integer"}})]
    turn = Turn(calls=(ToolCall("f", {"city": "Rome", "count": 12}),))
    for format in FORMATS:
        places = place_all(format, turn, given)
        pointers = {place.pointer for place in places if place.call == 0}
        assert {"/city", "/count"} <= pointers, format.name


def read_place(format: Format, turn: Turn, given: list[Any], place: TokenPlace) -> str:
    """What the tokens of a place spell, all of them together."""
    data = render(turn, format, read_tools(given), State(calls=0)).encode()
    places = place_all(format, turn, given)
    found = bytes([byte for byte, one in zip(data, places, strict=True) if one == place])
    return found.decode("utf-8", "replace")


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_names_and_values_are_where_they_stand(format: Format):
    given = [tool("look_up", {"city": {"type": "string"}, "count": {"type": "integer"}})]
    turn = Turn(calls=(ToolCall("look_up", {"city": "Rome", "count": 12}),))
    assert read_place(format, turn, given, TokenPlace(TracedPart.TOOL_NAME, 0)) == "look_up"
    assert "Rome" in read_place(format, turn, given, TokenPlace(TracedPart.ARGUMENTS, 0, "/city"))
    assert "12" in read_place(format, turn, given, TokenPlace(TracedPart.ARGUMENTS, 0, "/count"))


def test_a_character_may_be_several_tokens():
    turn = Turn("é😀")
    places = place_all(HERMES, turn, [tool("f", {})])
    assert places[-1].part is TracedPart.CONTENT


def test_a_key_that_is_no_json_stays_as_it_is_written():
    path = JsonPath()
    path.feed('{"a\\x": 1')
    assert path.pointer == "/a\\x"
