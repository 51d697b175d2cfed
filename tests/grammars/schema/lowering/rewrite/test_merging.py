"""Conjunction of two schemas."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.schema.lowering.rewrite.merging import merge
from grammars.schema.nodes import are_same
from tests.schema_strategies import VALUES, shapes


@pytest.mark.parametrize(
    ("a", "b", "merged", "left_out"),
    [
        ({"type": "integer"}, {"type": "number"}, {"type": ["integer"]}, []),
        ({"type": ["number", "null"]}, {"type": "integer"}, {"type": ["integer"]}, []),
        ({"type": ["integer", "number"]}, {"type": "string"},
         {"type": ["integer", "number"], "enum": []}, []),
        ({"enum": ["integer", 1]}, {"enum": ["number", True]}, {"enum": []}, []),
        ({"const": 1}, {"const": 1}, {"const": 1}, []),
        ({"const": 1}, {"const": True}, {"const": 1, "enum": []}, []),
        ({"minLength": 1, "maximum": 3}, {"minLength": 2, "maximum": 2},
         {"minLength": 2, "maximum": 2}, []),
        ({"title": "a"}, {"title": "b"}, {"title": "a"}, []),
        ({"pattern": "(a)\\1"}, {"pattern": "b"}, {"pattern": "(a)\\1"}, ["pattern"]),
        ({"pattern": "^.{30}"}, {"pattern": "b"},
         {"pattern": r"^(?=[\s\S]*(?:b))[\s\S]*(?:^.{30})"}, []),
        ({"enum": [1, True]}, {"enum": [2, 1.0]}, {"enum": [1]}, []),
        ({"const": [1]}, {"const": [1.0]}, {"const": [1]}, []),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}, []),
        ({"anyOf": [1]}, {"anyOf": [2]}, {"anyOf": [1], "allOf": [{"anyOf": [2]}]}, []),
        ({"items": {"a": 1}}, {"items": {"b": 1}}, {"items": {"allOf": [{"a": 1}, {"b": 1}]}}, []),
        ({"items": {}}, {"items": False}, {"items": False}, []),
        ({"items": {"allOf": [{"a": 1}, {"b": 1}]}}, {"items": {"b": 1}},
         {"items": {"allOf": [{"a": 1}, {"b": 1}]}}, []),
        ({"items": [{}]}, {"items": {"a": 1}}, {"items": [{}]}, ["items", "items"]),
        ({"items": {"a": 1}}, {"prefixItems": [{}]},
         {"items": {"a": 1}, "prefixItems": [{"allOf": [{"a": 1}, {}]}]}, []),
        ({"prefixItems": [{}], "items": {}}, {"prefixItems": [{}, False]},
         {"prefixItems": [{}, False], "items": {}}, []),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}},
         {"properties": {"a": {}, "b": False}, "additionalProperties": False}, []),
        ({"additionalProperties": {"x": 1}}, {"additionalProperties": {"x": 1}},
         {"additionalProperties": {"x": 1}}, []),
        ({"patternProperties": {"^b": {}}, "additionalProperties": False},
         {"properties": {"b": {}, "c": {}}},
         {"patternProperties": {"^b": {}}, "additionalProperties": False,
          "properties": {"b": {}, "c": False}}, []),
        ({"patternProperties": {"(a)\\1": {}}, "additionalProperties": False},
         {"properties": {"b": {}}},
         {"patternProperties": {"(a)\\1": {}}, "additionalProperties": False,
          "properties": {"b": {}}}, ["additionalProperties"]),
    ],
)  # fmt: skip
def test_keywords_are_joined(a: Any, b: Any, merged: Any, left_out: list[str]) -> None:
    assert merge(a, b) == (merged, left_out)


@given(shapes(), shapes(), VALUES, st.data())
def test_a_merged_schema_takes_what_both_take(
    a: Any, b: Any, value: Any, data: st.DataObject
) -> None:
    a, b = ({} if isinstance(s.schema, bool) else s.schema for s in (a, b))
    merged, left_out = merge(a, b)
    value = data.draw(st.just(value) | st.sampled_from([1, "", None, [], {}]))
    both = all(jsonschema_rs.is_valid(s, value, validate_formats=True) for s in (a, b))
    one = jsonschema_rs.is_valid(merged, value, validate_formats=True)
    assert one >= both
    assert one == both or left_out


@pytest.mark.parametrize("a", ["^ab", "m", "^[a-zé]+$", "^.{2,4}$"])
@pytest.mark.parametrize("b", ["yz$", "^[^-]*$", "é|b", ""])
def test_joined_patterns_match_what_both_match(a: str, b: str) -> None:
    """zod writes startsWith, includes and endsWith as patterns of an allOf."""
    merged, left_out = merge({"pattern": a}, {"pattern": b})
    assert left_out == []
    parts = [{"pattern": a}, {"pattern": b}]
    for text in ("", "m", "abyz", "ab-yz", "abmé", "mb", "é", "yz", "aéyz", "ab\n", "\U0001f600m"):
        both = jsonschema_rs.is_valid({"allOf": parts}, text)
        assert jsonschema_rs.is_valid(merged, text) == both, text


@pytest.mark.parametrize(
    ("a", "b"), [("^https:", "\\.example$"), ("^user_", "^[a-zA-Z0-9_]{1,64}$")]
)
def test_usual_patterns_are_short_enough_to_join(a: str, b: str) -> None:
    merged, left_out = merge({"pattern": a}, {"pattern": b})
    assert left_out == []
    for text in ("https:a.example", "https:example", "user_1", "user_-", "user_" + "a" * 60):
        both = jsonschema_rs.is_valid({"allOf": [{"pattern": a}, {"pattern": b}]}, text)
        assert jsonschema_rs.is_valid(merged, text) == both, text


def test_sameness_is_that_of_the_text() -> None:
    assert are_same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not are_same(1, True)
    assert not are_same(1, 1.0)
