"""Numbers of JSON arguments stream as the schema means them: deltas say what is read."""

import json
from typing import Any

import pytest

from grammars.formats import GEMMA4, HERMES, MISTRAL
from grammars.lowering.lower import lower
from grammars.parse.parser import Parser, collect
from grammars.turn import ArgumentEnd, ArgumentsDelta, CallRead, Tool
from grammars.wire.format import Format

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "listed": {"enum": [1.0, "a"]},
        "either": {"type": ["integer", "string"]},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "additionalProperties": True,
            },
        },
        "pair": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "integer"}]},
        "free": {"type": "object"},
        "whole": {"enum": [{"a": 1, "b": [2.0]}]},
    },
}
TOOLS = [Tool("f", lower(SCHEMA))]
UNION = [Tool("f", lower({"anyOf": [SCHEMA, {"type": "object", "properties": {"m": True}}]}))]
SQUARE = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "size": {"type": "integer"}},
}
CIRCLE = {"type": "object", "properties": {"kind": {"const": "circle"}, "size": {"type": "number"}}}
EITHER = {"oneOf": [shape | {"required": ["kind", "size"]} for shape in (SQUARE, CIRCLE)]}
SHAPES = [Tool("f", lower(EITHER))]
INNER = {
    "shape": EITHER,
    "rows": {"type": "array", "items": EITHER},
    "of": {"anyOf": [{"type": "array", "items": {"type": t}} for t in ("integer", "number")]},
    "any": {"anyOf": [SQUARE, True]},
    "n": {"type": "integer"},
}
INSIDE = [Tool("f", lower({"type": "object", "properties": INNER}))]
CASES = [
    ('{"n": 2.0}', '{"n": 2}'),
    ('{"n": -0.0, "x": -0.0}', '{"n": 0, "x": -0.0}'),
    ('{"n": 1e3 , "x": 1e3}', '{"n": 1000 , "x": 1e3}'),
    ('{"n": 12345678901234567890}', '{"n": 12345678901234567890}'),
    ('{"listed": 1}', '{"listed": 1.0}'),
    ('{"either": 2.0, "n": 5}', '{"either": 2, "n": 5}'),
    ('{"either": "2.0"}', '{"either": "2.0"}'),
    (
        '{"rows": [{"n": 1.0}, {"n": 2}, {"m\\u0022": 3.0}]}',
        '{"rows": [{"n": 1}, {"n": 2}, {"m\\u0022": 3.0}]}',
    ),
    ('{"rows": [{"\\u006e": 1.0}]}', '{"rows": [{"\\u006e": 1}]}'),
    ('{"pair": [1.0, 2.0, 3.0]}', '{"pair": [1.0, 2, 3.0]}'),
    ('{"free": {"n": 1.0, "l": [1.0]}}', '{"free": {"n": 1.0, "l": [1.0]}}'),
    ('{"whole": {"a": 1.0, "b": [2]}}', '{"whole": {"a": 1, "b": [2.0]}}'),
    ('{"n":\n7}', '{"n":\n7}'),
]
CHOICES = [
    (SHAPES, '{"kind": "square", "size": 2.0}', '{"kind": "square", "size": 2}'),
    (SHAPES, '{"size": 2.0, "kind": "square"}', '{"size": 2, "kind": "square"}'),
    (SHAPES, '{"kind": "circle", "size": 2.0}', '{"kind": "circle", "size": 2.0}'),
    (SHAPES, '{"kind": "circle", "size": 2.5}', '{"kind": "circle", "size": 2.5}'),
    (
        INSIDE,
        '{"shape": {"size": 2.0, "kind": "square"}, "n": 3.0}',
        '{"shape": {"size": 2, "kind": "square"}, "n": 3}',
    ),
    (
        INSIDE,
        '{"rows": [{"size": 2.0 , "kind": "square"}, {"size": 1e3, "kind": "circle"}]}',
        '{"rows": [{"size": 2 , "kind": "square"}, {"size": 1e3, "kind": "circle"}]}',
    ),
    (INSIDE, '{"of": [1.0, 2.5], "n": 1.0}', '{"of": [1.0, 2.5], "n": 1}'),
    (INSIDE, '{"of": [1.0, "a", 2.0]}', '{"of": [1.0, "a", 2.0]}'),
    (
        INSIDE,
        '{"any": {"kind": "square", "size": 2.0}}',
        '{"any": {"kind": "square", "size": 2.0}}',
    ),
    (INSIDE, '{"shape": {"size": 2.0, "size": [2.0]}}', '{"shape": {"size": 2.0, "size": [2.0]}}'),
]
OPENERS = {HERMES.name: '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>'}
OPENERS[MISTRAL.name] = "[TOOL_CALLS]f[ARGS]{}"


@pytest.mark.parametrize("format", [HERMES, MISTRAL], ids=lambda format: format.name)
@pytest.mark.parametrize("tools", [TOOLS, UNION], ids=["object", "union"])
@pytest.mark.parametrize(("written", "told"), CASES)
def test_deltas_have_the_numbers_that_are_read(
    format: Format, tools: list[Tool], written: str, told: str
) -> None:
    text = OPENERS[format.name].format(written)
    for cut in range(0, len(text), 5):
        assert_tells(Parser(format, tools, stream=True), text, cut, told)


@pytest.mark.parametrize(("tools", "written", "told"), CHOICES)
def test_a_number_waits_for_the_object_that_is_meant(
    tools: list[Tool], written: str, told: str
) -> None:
    text = OPENERS[HERMES.name].format(written)
    for cut in range(len(text)):
        assert_tells(Parser(HERMES, tools, stream=True), text, cut, told)


def test_numbers_beside_raw_strings_are_those_that_are_read() -> None:
    text = '<|tool_call>call:f{n:77.0,rows:[{n:8.0,s:<|"|>9.0<|"|>}],x:1.0}<tool_call|>'
    told = '{"n": 77, "rows": [{"n": 8, "s": "9.0"}], "x": 1.0}'
    for cut in range(len(text)):
        assert_tells(Parser(GEMMA4, TOOLS, stream=True), text, cut, told)


def assert_tells(parser: Parser, text: str, cut: int, told: str) -> None:
    """The text, cut there, streams these arguments, which are those of its call."""
    events = [*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.close()]
    deltas = [event for event in events if isinstance(event, ArgumentsDelta)]
    (call,) = [event.call for event in events if isinstance(event, CallRead)]
    streamed = "".join(delta.text for delta in deltas)
    assert streamed == told
    assert json.dumps(json.loads(streamed)) == json.dumps(call.arguments)
    ends = {b.key: b.value for d in deltas for b in d.boundaries if isinstance(b, ArgumentEnd)}
    assert json.dumps(ends) == json.dumps(call.arguments)


def test_what_is_no_number_is_not_held_back() -> None:
    parser = Parser(HERMES, TOOLS, stream=True)
    told: list[Any] = []
    for piece in ('<tool_call>\n{"name": "f", "arguments": {"either": "', "ab", '", "x": 1', "5"):
        told += [e.text for e in parser.feed(piece) if isinstance(e, ArgumentsDelta)]
    assert "".join(told) == '{"either": "ab", "x": 15'


@pytest.mark.parametrize("broken", ['{"a\n": 1}', '{"n": 1.2.3}', '{"n": -}', '{n: 2.0, "n": 3.0}'])
def test_what_is_no_json_reads_the_same_in_every_cut(broken: str) -> None:
    text = OPENERS[HERMES.name].format(broken)
    whole = Parser(HERMES, TOOLS, stream=True)
    events = collect([*whole.feed(text), *whole.close()])
    pieces = Parser(HERMES, TOOLS, stream=True)
    cut = [event for character in text for event in pieces.feed(character)]
    assert collect([*cut, *pieces.close()]) == events
