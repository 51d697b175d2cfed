"""Validation ends: what has too many ways through a schema does not fit, everything else is told
as jsonschema-rs tells it."""

from typing import Any

import pytest

from benchmarks.attacks.schemas import complete_graph, double_references, recursive_alternatives
from grammars.schema.validator import Validator, find_multiplied


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def test_a_value_with_few_ways_is_told_why_it_does_not_fit() -> None:
    schema = double_references(4)
    validator = Validator(schema, schema)
    assert validator.admits({"a": 1})
    assert validator.find_error({"a": 1}) is None
    assert validator.find_error({"a": "x"}) == (["a"], '"x" is not of type "integer"')


def test_a_value_of_many_ways_has_no_reason() -> None:
    schema = double_references(14)
    validator = Validator(schema, schema)
    assert validator.admits({"a": 1})
    assert validator.find_error({"a": "x"}) == ([], "the value does not fit the schema")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (double_references(40), {"a": 1}),
        (double_references(8, width=50), {"a": 1}),
        (complete_graph(30), {"p1": 1}),
        (recursive_alternatives(8), {"v": nest(60)}),
    ],
)
def test_a_value_of_too_many_ways_does_not_fit(schema: Any, value: Any) -> None:
    validator = Validator(schema, schema)
    assert not validator.admits(value)
    error = validator.find_error(value)
    assert error is not None
    assert "steps" in error[1]


def test_a_deep_value_of_one_way_is_validated() -> None:
    schema = {"properties": {"a": {"$ref": "#"}}, "type": ["object", "integer"]}
    validator = Validator(schema, schema)
    assert validator.admits(nest(100))
    assert not validator.admits({"a": {"a": "x"}})


def test_what_multiplies_out_is_found() -> None:
    assert find_multiplied(double_references(8)) is None
    assert find_multiplied(double_references(40)) is not None
    inner = {"type": "object", "properties": {"x": double_references(30)["$defs"]["d0"]}}
    assert find_multiplied({**inner, "$defs": double_references(30)["$defs"]}) is not None
    assert find_multiplied({"properties": {"a": {"$ref": "#"}}}) is None
