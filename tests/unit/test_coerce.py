"""Raw text -> typed values."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.coerce import coerce, coerce_members, read_json
from grammars.errors import CoerceError
from grammars.lowering import lower
from tests.shapes import VALUES

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "coercion_cases.jsonl")
    .read_text("utf-8")
    .splitlines()
]
JUDGEMENTS = {
    "c049": None,  # Python's None is null where null is admitted
    "c089": CoerceError,  # "5." is no number in JSON
    "c144": CoerceError,  # text that was encoded once too often is not repaired
}
"""What we do in the cases where others may choose otherwise."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_cases(case: dict[str, Any]) -> None:
    schema = lower(case["schema"], only_object=False)
    expected = CoerceError if case["expect_invalid"] else case["expected"]
    if case["confidence"] == "judgement":
        expected = JUDGEMENTS[case["id"]]
    if expected is CoerceError:
        with pytest.raises(CoerceError):
            coerce(case["raw_text"], schema)
    else:
        assert json.dumps(coerce(case["raw_text"], schema)) == json.dumps(expected)


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
    ],
)
def test_values_by_schema(schema: Any, raw: str, value: Any) -> None:
    read = coerce(raw, lower(schema, only_object=False))
    assert json.dumps(read) == json.dumps(value)


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
