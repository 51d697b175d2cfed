"""Schemas that admit no value."""

from typing import Any

import pytest

from constrained.inspect.replay.schemas import InstanceTrial
from grammars.errors import SchemaError
from grammars.limits.steps import limit_steps
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Number, Object, Schema


def lower_value(schema: Any, **definitions: Any) -> Schema:
    """The lowered schema of a required property."""
    root = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    member = lower(root | {"$defs": definitions}).find_members("v")[0]
    assert member is not None
    return member


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "array", "minItems": 3, "maxItems": 2},
        {"type": "array", "items": False, "minItems": 1},
        {"type": "number", "minimum": 1, "exclusiveMaximum": 1},
        {"type": "number", "exclusiveMinimum": 2, "maximum": 2},
        {"type": "number", "exclusiveMinimum": 2, "exclusiveMaximum": 2},
        {"type": "number", "minimum": 2, "maximum": 1},
        {"type": "integer", "minimum": 0.2, "maximum": 0.8},
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "number", "minimum": 3, "maximum": 3.5, "multipleOf": 2},
        {"type": "number", "exclusiveMinimum": 5, "exclusiveMaximum": 10, "multipleOf": 5},
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3, "multipleOf": 1.5},
        {"enum": [1], "type": "string"},
        {"allOf": [{"type": "string"}, {"type": ["integer", "number"]}]},
        {"allOf": [{"const": 1}, {"const": True}]},
        {"allOf": [{"enum": [1, 2]}, {"enum": [True, "1"]}]},
        {"allOf": [{"type": "string"}, False]},
        {"allOf": [{"type": "string"}, {"type": "integer"}], "enum": [1, "1"]},
        {"$ref": "#/$defs/Endless"},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "object", "required": ["a"], "additionalProperties": False},
    ],
)
def test_a_required_property_without_any_value_is_a_contradiction(schema: Any) -> None:
    endless = {"properties": {"a": {"$ref": "#/$defs/Endless"}}, "required": ["a"]}
    with pytest.raises(SchemaError, match="allows no object"):
        lower_value(schema, Endless={"type": "object", **endless})
    optional = lower({"type": "object", "properties": {"v": schema}, "$defs": {
        "Endless": {"type": "object", **endless}}})  # fmt: skip
    assert optional.node == Object((), None, False)


def test_alternatives_that_leave_no_number_are_dropped() -> None:
    parts = [{"properties": {"a": part}} for part in ({"enum": [2]}, {"exclusiveMaximum": 2})]
    schema = lower({"type": "object", "oneOf": parts}, close=False)
    trial = InstanceTrial(schema)
    for value in (2, 1, 3, "xy"):
        assert (trial.find_refusal({"a": value}) is None) == schema.admits({"a": value})


def test_an_integer_bound_is_not_empty() -> None:
    for bounds in ({"minimum": 1, "maximum": 1}, {"exclusiveMinimum": 0}, {"maximum": 0.5}):
        assert lower_value({"type": "integer", **bounds}).node == Number(True, bounds)


def test_a_multiple_at_a_bound_is_one() -> None:
    bounds = {"minimum": 15, "maximum": 15, "multipleOf": 5}
    assert lower_value({"type": "number", **bounds}).node == Number(True, bounds)


def test_a_pattern_beside_a_great_length_is_not_explored() -> None:
    """Its shortest text says that it has one; a text of 2,000 spaces says nothing."""
    schema = {"type": "string", "pattern": r"\S", "maxLength": 2_000}
    with limit_steps(2_000):
        lower(schema, only_object=False)


def test_alternatives_that_exclude_each_other_by_their_patterns_have_no_text() -> None:
    with pytest.raises(SchemaError, match="no value"):
        lower(
            {"type": "string", "oneOf": [{"pattern": "^a"}, {"pattern": "^a"}]}, only_object=False
        )
