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


LETTERS = {"type": "string", "pattern": r"^\p{L}{1,255}$"}


@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        (LETTERS, "Jörg", None),
        (LETTERS, "R2", ([], r'"R2" does not match "^\p{L}{1,255}$"')),
        (LETTERS, 2, ([], '2 is not of type "string"')),
        (LETTERS | {"format": "email"}, "Jörg", ([], '"Jörg" is not a "email"')),
        ({"items": {"anyOf": [LETTERS, {"const": 1}]}}, ["x", 1], None),
        ({"not": LETTERS, "allOf": [{"minLength": 2}]}, "R2", None),
        ({"$ref": "#/$defs/n", "$defs": {"n": LETTERS}}, "Zoë", None),
        ({"$ref": "#/$defs/n", "$defs": {"n": LETTERS}}, "9", "does not match"),
    ],
)
def test_letters_of_all_scripts_are_counted(schema: Any, value: Any, error: Any) -> None:
    """jsonschema-rs itself refuses the pattern for the size of its automaton."""
    found = Validator(schema, schema).find_error(value)
    if isinstance(error, str):
        assert found is not None
        assert error in found[1]
    else:
        assert found == error


def test_letters_are_counted_behind_a_reference_into_the_document() -> None:
    root = {"$defs": {"n": LETTERS}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    validator = Validator(root["properties"]["a"], root)
    assert validator.admits("Zoë")
    assert not validator.admits("9")


def test_a_text_that_takes_too_many_steps_does_not_match() -> None:
    schema = {"pattern": r"^(a|\p{L})*a(a|b){1000}$"}
    assert not Validator(schema, schema).admits("ab" * 1000)


def test_the_message_about_a_long_constant_is_short() -> None:
    schema = {"const": [*range(20_000)]}
    found = Validator(schema, schema).find_error([1])
    assert found is not None
    assert len(found[1]) < 2_000


@pytest.mark.parametrize("draft", ["04", "06", "07"])
def test_a_meta_schema_does_not_refuse_what_the_engine_reads(draft: str) -> None:
    schema = {
        "$schema": f"http://json-schema.org/draft-{draft}/schema#",
        "definitions": {"text": {"pattern": r"^\{.+}$"}},
        "items": {"$ref": "#/definitions/text"},
        "patternProperties": {"(?i)^a}$": {"type": "null"}},
    }
    validator = Validator(schema, schema)
    assert validator.admits(["{a}"])
    assert not validator.admits(["{a"])
    assert not validator.admits({"A}": 1})
    assert not Validator(schema["items"], schema).admits("{a")
    for wrong, why in (({"maxLength": -1}, "minimum of 0"), ({"pattern": "(}"}, "regex")):
        with pytest.raises(ValueError, match=why):
            Validator({**schema, **wrong}, {**schema, **wrong})
