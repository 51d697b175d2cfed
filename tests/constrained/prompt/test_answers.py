"""Answers: the numbers that a schema means, whatever type reads them."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from constrained.errors import RequestError
from constrained.prompt.answers import read_answer, read_response_format, read_target
from grammars.errors import SchemaError
from grammars.schema.lowering.lower import lower
from grammars.schema.numbers import normalise_numbers


class Trip(BaseModel):
    model_config = ConfigDict(strict=True)
    days: int
    grade: Literal[1, 2]
    cost: float


def test_a_strict_model_takes_an_integer_with_a_point() -> None:
    target = read_target(schema=Trip)
    trip = target.read('{"days": 2.0, "grade": 1.0, "cost": 3}')
    assert trip == Trip(days=2, grade=1, cost=3.0)
    assert read_answer(target.answer, '{"days": 1e1, "grade": 2, "cost": 1e-06}') == {
        "days": 10,
        "grade": 2,
        "cost": 1e-06,
    }


def test_a_schema_is_read_in_its_numbers() -> None:
    days = read_target(schema={"type": "array", "items": {"type": "integer"}}).read("[1.0, 2]")
    assert list(map(type, days)) == [int, int]


def test_undeclared_keys_are_read_by_their_patterns() -> None:
    patterns = {"^n": {"type": "integer"}, "^s": {"enum": [1.0]}}
    schema = lower({"type": "object", "properties": {"a": {}}, "patternProperties": patterns})
    settled = normalise_numbers({"a": 2.0, "n1": 2.0, "s1": 1, "other": 2.0}, schema)
    kinds = {key: type(value) for key, value in settled.items()}
    assert kinds == {"a": float, "n1": int, "s1": float, "other": float}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"a"])
def test_a_schema_that_is_not_json_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(SchemaError, match="not JSON") as info:
        read_response_format({"type": "json_schema", "schema": {"const": value}})
    assert info.value.where == "/response_format/schema"


@pytest.mark.parametrize(
    "schema", [{"const": "\ud800"}, {"type": "object", "properties": {"a\udc00": {}}}]
)
def test_a_schema_with_a_lone_surrogate_is_refused_with_its_place(schema: Any) -> None:
    with pytest.raises(SchemaError, match=r"not JSON: .*surrogates") as info:
        read_response_format({"type": "json_schema", "json_schema": {"schema": schema}})
    assert info.value.where == "/response_format/json_schema/schema"


@pytest.mark.parametrize("value", ["print('run')", "int", ["int"], 7, 0.5])
def test_data_is_no_type(value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RequestError, match="neither a JSON schema nor a type"):
        read_target(schema=value)
    assert capsys.readouterr().out == "", "a text was run as Python"


def test_keys_are_those_of_json() -> None:
    target = read_target(schema={"type": "object", "properties": {1: {"type": "null"}}})
    assert read_answer(target.answer, '{"1": null}') == {"1": None}
