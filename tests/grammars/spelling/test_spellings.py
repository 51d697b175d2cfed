"""One value in all spellings that models choose: taken, ended from any cut, delivered alike."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.parse.parser import parse
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import are_same
from grammars.schema.numbers import are_equal, normalise_numbers
from grammars.spelling.coerce import coerce
from grammars.turn import Choice, Policy, State, Tool
from grammars.wire.format import Format
from grammars.wire.formats import HERMES, MINIMAX_M3, QWEN3_CODER
from tests.agreement.matching import Masked, completed
from tests.turn_completer import turn_completer

REQUIRED = Policy(Choice.REQUIRED)
PATHS = {"type": "object", "properties": {"é/a": {"type": "integer"}, "b": {"type": "null"}}}
CASES: list[tuple[Any, str, Any]] = [
    ({"type": "integer"}, "9007199254740993", 2**53 + 1),
    ({"type": "integer", "minimum": -100, "maximum": 100}, "-20", -20),
    ({"type": ["integer", "null"]}, "5", 5),
    ({"type": "number", "minimum": 1, "maximum": 5}, "5.0", 5.0),
    ({"type": "number", "multipleOf": 0.01}, "19.99", 19.99),
    ({"type": "number", "minimum": 0, "maximum": 1}, "1e-06", 1e-06),
    ({"type": "number", "exclusiveMinimum": 0}, "5E3", 5000.0),
    ({"type": "number"}, "2.0", 2.0),
    ({"enum": [1, 2.5]}, "1", 1),
    ({"enum": [1.0, "x"]}, "1.0", 1.0),
    ({"const": 1e-06}, "0.000001", 1e-06),
]
IN_JSON: list[tuple[Any, str, Any]] = [
    ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
    ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}, "[3]", [3]),
    ({"const": {"a": [1, 2], "b": None}}, '{"b": null, "a": [1, 2]}', {"a": [1, 2], "b": None}),
    ({"enum": ["é/ü", "e"]}, '"\\u00e9\\/\\u00fc"', "é/ü"),
    ({"enum": ["é/ü", "e"]}, '"\\u00E9/\\u00FC"', "é/ü"),
    (PATHS, '{"\\u00e9\\/a": 4}', {"é/a": 4}),
    ({**PATHS, "additionalProperties": True}, '{"é\\/a": 4, "c": 1}', {"é/a": 4, "c": 1}),
    ({"type": "object", "properties": {"b": {"type": "null"}}, "additionalProperties": True},
     '{"\\u00e9\\/\\ud83d\\ude00": 4.0, "b": null}', {"é/😀": 4.0, "b": None}),
]  # fmt: skip


def write(format: Format, value: str) -> str:
    """A call with one argument."""
    if format is HERMES:
        return f'<tool_call>\n{{"name": "f", "arguments": {{"v": {value}}}}}\n</tool_call>'
    if format is QWEN3_CODER:
        return (
            "<tool_call>\n<function=f>\n<parameter=v>\n"
            f"{value}\n</parameter>\n</function>\n</tool_call>"
        )
    mark = "]<]minimax[>["
    call = f'<invoke name="f">{mark}<v>{value}{mark}</v>{mark}</invoke>'
    return f"{mark}<tool_call>\n{mark}{call}\n{mark}</tool_call>"


@pytest.mark.parametrize(
    ("format", "case"),
    [(f, case) for f in (HERMES, QWEN3_CODER, MINIMAX_M3) for case in CASES]
    + [(HERMES, case) for case in IN_JSON]
    + [(QWEN3_CODER, case) for case in IN_JSON if case[1][0] != '"'],
    ids=lambda part: part.name if isinstance(part, Format) else part[1],
)  # fmt: skip
def test_a_spelling_is_taken_ended_and_delivered(
    format: Format, case: tuple[Any, str, Any]
) -> None:
    schema, spelled, value = case
    root = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    tools = [Tool("f", lower(root))]
    held = Masked(format, tools, REQUIRED, State(), single=False)
    completer = turn_completer(format, tools, REQUIRED, State(), held.ids)
    text = write(format, spelled)
    assert held.accepts(text)
    (call,) = parse(text, format, tools, State()).calls
    assert call.valid
    got = call.arguments["v"]
    assert are_same(got, value) if isinstance(value, dict | list) else repr(got) == repr(value)
    start = text.index(spelled)
    for cut in range(start, start + len(spelled) + 1):
        whole = completed(held, completer, text[:cut])
        assert whole is not None
        (call,) = parse(whole, format, tools, State()).calls
        assert call.valid


@pytest.mark.parametrize("written", ["2.0", "2e3", "2E+3", "02", "+2"])
@pytest.mark.parametrize("format", [HERMES, QWEN3_CODER, MINIMAX_M3], ids=lambda f: f.name)
def test_an_integer_has_one_spelling_in_the_mask(format: Format, written: str) -> None:
    for kind in ({"type": "integer"}, {"type": "number", "multipleOf": 2}, {"enum": [2, "x"]}):
        root = {"type": "object", "properties": {"v": kind}, "required": ["v"]}
        tools = [Tool("f", lower(root))]
        held = Masked(format, tools, REQUIRED, State(), single=False)
        assert held.accepts(write(format, "2"))
        assert not held.accepts(write(format, written))
        (call,) = parse(write(format, "2.0"), format, tools, State()).calls
        assert call.valid
        assert repr(call.arguments["v"]) == "2"


@pytest.mark.parametrize(
    "written",
    [
        '{"\\u00e9\\/a": "text"}',  # no spelling of a declared key leads past its type
        '{"\\u00E9/a": "text"}',
        '{"é\\u002fa": "text"}',
        '{"\\u0062": 1}',
        '{"b": null, "\\u0062": null}',
        '{"é/a": 1, "\\u00e9/a": 1}',
    ],
)
@pytest.mark.parametrize("rest", [True, False])
def test_no_spelling_of_a_key_escapes_its_type(written: str, rest: bool) -> None:
    root = {"type": "object", "properties": {"v": {**PATHS, "additionalProperties": rest}}}
    held = Masked(HERMES, [Tool("f", lower(root))], REQUIRED, State(), single=False)
    assert not held.accepts(write(HERMES, written))


@pytest.mark.parametrize("written", ['{"\\u00e9x": 1}', '{"\\u003c": 1}', '{"é\\/b": null}'])
def test_other_keys_are_numbered_beside_a_declared_one(written: str) -> None:
    root = {"type": "object", "properties": {"v": {**PATHS, "additionalProperties": True}}}
    held = Masked(HERMES, [Tool("f", lower(root))], REQUIRED, State(), single=False)
    assert held.accepts(write(HERMES, written))


def test_a_listed_word_is_held_letter_by_letter() -> None:
    root = {"type": "object", "properties": {"v": {"enum": ["\\u00e9", "a"]}}}
    held = Masked(HERMES, [Tool("f", lower(root))], REQUIRED, State(), single=False)
    assert held.accepts(write(HERMES, '"\\\\u00e9"'))
    assert not held.accepts(write(HERMES, '"\\\\u00E9"'))
    assert not held.accepts(write(HERMES, '"\\u0061"'))


@pytest.mark.parametrize(
    ("schema", "value", "settled"),
    [
        ({"type": "integer"}, 2.0**53, 2**53),
        ({"type": "integer"}, 1e22, 10**22),
        ({"type": "integer"}, 2.5, 2.5),
        ({"type": ["integer", "string"]}, True, True),
        ({"enum": [True, 0]}, 0.0, 0),
        ({"enum": [True, 1.0]}, 1, 1.0),
        ({"enum": [[1, {"a": 2}]]}, [1.0, {"a": 2.0}], [1, {"a": 2}]),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]},
         {"a": 2.0}, {"a": 2}),  # what else is wrong is told, and this is right
        ({"anyOf": [{"type": "integer", "maximum": 3}, {"type": "number", "minimum": 3}]},
         7.0, 7.0),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}},
                    {"type": "array", "items": {"type": ["number", "null"]}}]},
         [1.0, None], [1.0, None]),
        ({"$defs": {"t": {"type": "object", "properties":
                          {"n": {"type": "integer"}, "t": {"$ref": "#/$defs/t"}}}},
          "$ref": "#/$defs/t"},
         {"n": 1.0, "t": {"n": 2.0, "t": {}}}, {"n": 1, "t": {"n": 2, "t": {}}}),
    ],
)  # fmt: skip
def test_values_are_settled(schema: Any, value: Any, settled: Any) -> None:
    read = normalise_numbers(value, lower(schema, only_object=False))
    assert json.dumps(read) == json.dumps(settled)


def test_a_value_that_is_too_deep_is_left_alone() -> None:
    schema = lower({"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
                    "$ref": "#/$defs/t"}, only_object=False)  # fmt: skip
    value: Any = []
    for _ in range(50_000):
        value = [value]
    assert normalise_numbers(value, schema) is value


@given(st.integers(-(10**14), 10**14), st.integers(0, 4))
def test_an_integer_with_a_point_is_that_integer(number: int, zeros: int) -> None:
    schema = lower({"type": "integer"}, only_object=False)
    spelled = f"{number}.{'0' * (zeros + 1)}"
    for value in (normalise_numbers(json.loads(spelled), schema), coerce(spelled, schema)):
        assert (value, type(value)) == (number, int)


@pytest.mark.parametrize("pair", [(1, True), (0, False), (1, "1"), ([1], {"0": 1}), (None, 0)])
def test_what_is_not_equal(pair: tuple[Any, Any]) -> None:
    assert not are_equal(*pair)
