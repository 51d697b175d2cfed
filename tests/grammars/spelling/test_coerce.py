"""Raw text -> typed values."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.errors import CoerceError
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import are_same
from grammars.spelling.coerce import coerce, coerce_members
from grammars.spelling.value_reader import read_json
from tests.schema_strategies import VALUES

ROWS = Path(__file__).parents[2] / "data" / "coercion_cases.jsonl"
CASES = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
JUDGED_OTHERWISE = {
    "c089": "`5.` is no number in JSON, and it is what is left of 5.25 where a text is cut",
    "c144": "a JSON string is no array: to look into it would be to change the value",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_cases(case: dict[str, Any]) -> None:
    is_refused = case["expect_invalid"]
    if case["id"] in JUDGED_OTHERWISE:
        assert case["confidence"] == "judgement"
        is_refused = True
    schema = lower(case["schema"], only_object=False)
    if is_refused:
        with pytest.raises(CoerceError):
            coerce(case["raw_text"], schema)
    else:
        assert are_same(coerce(case["raw_text"], schema), case["expected"])


@pytest.mark.parametrize(
    ("schema", "raw", "value"),
    [
        ({}, "5", 5),
        ({}, "text", "text"),
        ({}, '"text"', '"text"'),
        ({"not": {"type": "integer"}}, "5", "5"),
        ({"enum": ["1", 2, True, [1], {"a": 1}]}, "1", "1"),
        ({"enum": ["1", 2, True, [1], {"a": 1}]}, "true", True),
        ({"enum": ["1", 2, True, [1], {"a": 1}]}, '{"a": 1}', {"a": 1}),
        ({"type": ["boolean", "integer"]}, " False ", False),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "1.50", 1.5),
        ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "string"}]}, "1", "1"),
        # What an enum lists is meant, unless it is JSON of what else is admitted.
        ({"enum": ["none", "all", None]}, "none", "none"),
        ({"enum": ["none", "all", None]}, "None", None),
        ({"enum": ["none", "all", None]}, "null", None),
        ({"type": ["string", "null"], "enum": ["null", None]}, "null", None),
        ({"type": ["string", "boolean"], "enum": ["True", True]}, "True", "True"),
        ({"enum": ["1.0", 1]}, "1.0", "1.0"),
        # Numbers that are text, and text that is a number.
        ({"type": ["string", "integer"]}, "7", 7),
        ({"type": ["string", "integer"]}, "007", "007"),
        ({"type": ["string", "integer"]}, "2.0", "2.0"),
        ({"type": ["string", "number"]}, "2.0", 2.0),
        ({"type": "integer"}, "2.0", 2),
        ({"type": "integer"}, "-1e3", -1000),
        ({"const": 5}, "5.0", 5),
        ({"type": ["integer", "number"]}, "2.0", 2.0),
        ({"type": "integer"}, "123456789012345678901234567890", 123456789012345678901234567890),
        ({"type": "number"}, "9007199254740993", 9007199254740993),
        ({"type": "integer"}, "9007199254740993.0", 9007199254740993),
        ({"type": "integer"}, "1.5e+16", 15_000_000_000_000_000),
        ({"type": "integer"}, "4E83", 4 * 10**83),
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "type": "array",
                "items": {"type": "integer"},
            },
            "[2.0, 1e3]",
            [2, 1000],
        ),
        # Blanks and nothing.
        ({"type": "integer"}, " 42\n", 42),
        ({"type": ["string", "integer"]}, "", ""),
        ({"type": ["string", "null"]}, " ", " "),
        ({"type": ["string", "null"]}, " null ", None),
        # Python.
        ({"type": "array"}, "['it\\'s', True, None, 1.5]", ["it's", True, None, 1.5]),
        ({"type": "object"}, '{\'a\': "b", "c": {}}', {"a": "b", "c": {}}),
        ({"type": ["array", "string"]}, "['a']", ["a"]),
        ({"type": ["array", "string"]}, "['a'", "['a'"),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        # JSON and dates are text where text is wanted.
        ({"type": "string"}, '{"a": [1]}', '{"a": [1]}'),
        ({"type": "string"}, "'x'", "'x'"),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-28"),
        ({"type": ["string", "null"], "format": "date"}, "2026-02-28", "2026-02-28"),
        # Unions in unions, and definitions.
        (
            {"anyOf": [{"oneOf": [{"type": "boolean"}, {"type": "null"}]}, {"type": "string"}]},
            "FALSE",
            False,
        ),
        ({"$defs": {"a": {"type": ["integer", "null"]}}, "$ref": "#/$defs/a"}, "none", None),
        (
            {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "string"}]},
            '{"b": 1}',
            '{"b": 1}',
        ),
        # Strings in a list or object are read like raw text, if it would not fit otherwise.
        ({"items": {"type": "integer"}, "type": "array"}, '["10", "20"]', [10, 20]),
        ({"items": {"type": "integer"}, "type": "array"}, "['1', '2.0']", [1, 2]),
        (
            {"items": {"type": ["boolean", "null"]}, "type": "array"},
            '["True", "none"]',
            [True, None],
        ),
        ({"items": {"type": ["string", "integer"]}, "type": "array"}, '["1", 2]', ["1", 2]),
        ({"prefixItems": [{"type": "number"}, {}], "type": "array"}, '["1.5", "2"]', [1.5, "2"]),
        (
            {"type": "object", "properties": {"a": {"items": {"type": "integer"}}, "b": {}}},
            '{"a": ["1"], "b": "1"}',
            {"a": [1], "b": "1"},
        ),
        (
            {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "type": "object"},
            '{"a": "1", "b": "1"}',
            {"a": 1, "b": "1"},
        ),
        (
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]},
            '["1"]',
            '["1"]',
        ),
    ],
)
def test_values_by_schema(schema: Any, raw: str, value: Any) -> None:
    read = coerce(raw, lower(schema, only_object=False))
    assert json.dumps(read) == json.dumps(value)


@pytest.mark.parametrize(
    ("schema", "raw"),
    [
        *(
            ({"type": "integer"}, raw)
            for raw in ("2.5", "5.", "+5", "007", "1_000", "0x10", "5 km")
        ),
        *(({"type": "integer"}, raw) for raw in ("", "True", "null", "1e400", '"5"', "5 km")),
        ({"type": "integer"}, "1.00000000000000000001"),
        ({"type": "integer"}, "1e-99999999999999999999"),
        ({"type": "integer", "maximum": 3}, "4.0"),
        ({"type": ["integer", "null"]}, ""),
        *(({"type": "boolean"}, raw) for raw in ("1", "yes", "'true'", "")),
        *(({"type": "array"}, raw) for raw in ("(1, 2)", "['a'", "{1}", "[nan]", "a, b")),
        ({"type": "array", "items": {"type": "integer"}}, "['a']"),
        ({"type": "array", "items": {"type": "array"}}, '["[1]"]'),
        ({"type": "object"}, "{'a': 1, **b}"),
        ({"type": "null"}, "nil"),
        ({"enum": ["a", None]}, "b"),
        ({"enum": ["a", "b"]}, " a"),
        ({"type": "string", "format": "date"}, "2026-02-30"),
    ],
)
def test_what_spells_no_such_value_is_refused(schema: Any, raw: str) -> None:
    with pytest.raises(CoerceError):
        coerce(raw, lower(schema, only_object=False))


@pytest.mark.parametrize(
    ("raw", "value"),
    [('[1, "a"]', [1, "a"]), ("['a']", ["a"]), ("[1", "[1"), ('"a"', '"a"')],
)
def test_a_list_whose_items_do_not_fit_is_a_list(raw: str, value: Any) -> None:
    items = {"type": "array", "items": {"type": "integer"}}
    values, errors = coerce_members({"a": raw}, lower({"properties": {"a": items}}))
    assert values == {"a": value}
    assert errors


def test_a_refusal_says_where() -> None:
    schema = lower({"type": "array", "items": {"type": "integer"}}, only_object=False)
    with pytest.raises(CoerceError, match="not of type") as info:
        coerce('[1, "a"]', schema)
    assert info.value.where == "/1"
    with pytest.raises(CoerceError, match=r"'x{57}\.\.\.' is not array"):
        coerce("x" * 100, schema)
    with pytest.raises(CoerceError, match="is not integer or null"):
        coerce("x", lower({"type": ["integer", "null"]}, only_object=False))


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "Infinity", "-Infinity", "1e400", "", "{'a': 1}", "1" * 5000, "[" * 100_000),
        *('"\\ud800"', '[{"a": ["\\udc00"]}]', '{"\\ud800": 1}'),
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_json(text)


@given(VALUES)
def test_json_is_read(value: Any) -> None:
    text = json.dumps(value)
    assert json.dumps(read_json(text)) == text


@given(st.text())
def test_a_string_is_never_changed(text: str) -> None:
    assert coerce(text, lower({"type": "string"}, only_object=False)) == text


def test_members_are_read_as_the_first_object_that_all_of_them_fit() -> None:
    def kind(name: str, value: str) -> Any:
        properties = {"kind": {"const": name}, "value": {"type": value}}
        return {"type": "object", "properties": properties, "required": ["kind"]}

    schema = lower({"anyOf": [kind("number", "integer"), kind("text", "string")]})
    assert coerce_members({"kind": "number", "value": "5"}, schema) == (
        {"kind": "number", "value": 5},
        (),
    )
    assert coerce_members({"kind": "text", "value": "5"}, schema) == (
        {"kind": "text", "value": "5"},
        (),
    )
    values, errors = coerce_members({"kind": "number", "value": "x", "a/b": "1"}, schema)
    assert values == {"kind": "number", "value": "x", "a/b": "1"}
    assert [e.pointer for e in errors] == ["/value", "/a~1b"]
    assert [e.pointer for e in coerce_members({}, schema)[1]] == [""]
    assert coerce_members({"x": "1"}, lower({"type": "object"})) == ({"x": 1}, ())
