"""Values at the corners: few, valid, always the same, and one for each alternative."""

import json

import pytest
from hypothesis import given

from grammars.errors import SchemaError
from grammars.limits.steps import StepsError, limit_steps
from grammars.schema.corner_values import MAX_VALUES, list_corner_values
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from tests.schema_strategies import Shape, parameters

TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}


def list_values(schema: Json) -> list[Json]:
    return list_corner_values(lower(schema, only_object=False))


@given(parameters())
def test_values_are_few_and_valid(shape: Shape) -> None:
    try:
        lowered = lower(shape.schema, only_object=False)
    except SchemaError:
        return
    values = list_corner_values(lowered)
    assert len(values) <= MAX_VALUES
    assert all(map(lowered.admits, values))
    assert values == list_corner_values(lowered)


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "boolean"}, [False, True]),
        ({"enum": ["a", 1]}, ["a", 1]),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, [None, False, True]),
        ({"type": "integer", "minimum": 5, "maximum": 20}, [5, 9, 10, 19, 20, 6]),
        ({"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 30}, [14, 28]),
        ({"type": "string", "minLength": 1, "maxLength": 2}, ["a", " ", "éé"]),
        ({"type": "string", "pattern": "^(ab|c)$"}, ["c", "ab"]),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 1}, [[False], [True]]),
        ({"prefixItems": [{"enum": [1, 2]}], "items": False, "type": "array"}, [[], [1], [2]]),
        (
            {
                "type": "object",
                "properties": {"a": {"enum": [1, 2]}, "b": {"type": "null"}},
                "required": ["a"],
            },
            [{"a": 1}, {"a": 1, "b": None}, {"a": 2, "b": None}],
        ),
        (TREE, [{}, {"kids": []}, {"kids": [{}]}, {"kids": [{"kids": []}]}]),
    ],
)
def test_corners(schema: Json, values: list[Json]) -> None:
    assert sorted(map(json.dumps, list_values(schema))) == sorted(map(json.dumps, values))


def test_definitions_that_multiply_end() -> None:
    definitions: dict[str, Json] = {"d0": {"type": "null"}}
    for number in range(1, 30):
        inner = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {
            "type": "object",
            "properties": {"a": inner, "b": inner},
            "required": ["a", "b"],
        }
    lowered = lower({"$ref": "#/$defs/d29", "$defs": definitions}, only_object=False)
    with pytest.raises(StepsError), limit_steps(20_000):
        list_corner_values(lowered)
