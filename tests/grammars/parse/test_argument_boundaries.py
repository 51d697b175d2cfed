"""With the text of arguments goes which of them begin and end in it, however the text is cut."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grammars.parse.parser import Parser
from grammars.schema.lowering.lower import lower
from grammars.suite.strategies import Written, chunkings, wire_texts
from grammars.turn import ArgumentEnd, ArgumentsDelta, ArgumentStart, CallRead, Tool
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS, HERMES, QWEN3_CODER

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TOOLS = [Tool("f", lower({"type": "object", "additionalProperties": True}))]


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
@settings(max_examples=20, suppress_health_check=SLOW)
@given(data=st.data())
def test_each_argument_begins_and_ends_once(format: Format, data: st.DataObject) -> None:
    written: Written = data.draw(wire_texts(format))
    parser = Parser(format, written.tools, stream=True)
    found: dict[int, list[Any]] = {}
    for piece in [*data.draw(chunkings(written.text)), None]:
        for event in parser.close() if piece is None else parser.feed(piece):
            match event:
                case ArgumentsDelta(index, _, boundaries):
                    found.setdefault(index, []).extend(boundaries)
                case CallRead(index, call):
                    expected: list[Any] = []
                    for key, value in call.arguments.items():
                        expected += [ArgumentStart(key), ArgumentEnd(key, value)]
                    assert spell(found.get(index, [])) == spell(expected)
                case _:
                    pass


def spell(boundaries: list[Any]) -> str:
    return json.dumps([vars(boundary) for boundary in boundaries])


def find_boundaries(format: Format, pieces: list[str]) -> list[list[Any]]:
    parser = Parser(format, TOOLS, stream=True)
    return [
        [b for e in parser.feed(piece) if isinstance(e, ArgumentsDelta) for b in e.boundaries]
        for piece in pieces
    ]


def test_a_value_begins_behind_its_colon_and_ends_in_front_of_the_next_sign() -> None:
    head = '<tool_call>\n{"name": "f", "arguments": '
    pieces = [head, '{"a', '": ', '{"b": [1, "}"', "]}", ' , "c":', "1", "}", "}\n</tool_call>"]
    assert find_boundaries(HERMES, pieces) == [
        [],
        [],
        [ArgumentStart("a")],
        [],
        [],
        [ArgumentEnd("a", {"b": [1, "}"]}), ArgumentStart("c")],
        [],
        [ArgumentEnd("c", 1)],
        [],
    ]


def test_a_raw_value_ends_with_its_tag() -> None:
    pieces = ["<tool_call>\n<function=f>\n<parameter=a>\n", "x", "\n</parameter>\n</function>"]
    assert find_boundaries(QWEN3_CODER, pieces) == [
        [ArgumentStart("a")],
        [],
        [ArgumentEnd("a", "x")],
    ]


def test_behind_what_is_no_json_nothing_is_told() -> None:
    deep = "[" * 5000 + "]" * 5000
    for value in ("nothing", "1e999", deep):
        piece = f'<tool_call>{{"name": "f", "arguments": {{"a": {value}, "b": 1}}}}'
        assert find_boundaries(HERMES, [piece]) == [[]]
    pieces = ['<tool_call>{"name": "f", "arguments": {"a"', ": 01", ', "b": 1}}']
    assert find_boundaries(HERMES, pieces) == [[], [ArgumentStart("a")], []]
