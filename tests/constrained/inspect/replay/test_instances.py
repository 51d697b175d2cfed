"""Single instances: valid ones get through in each usual spelling, refused ones name the place."""

from typing import Any

import pytest

from constrained.inspect.replay.schemas import InstanceTrial, Place
from grammars.schema.lowering.lower import lower

_WORDS = "one two three four five"


def find_refusal(schema: Any, instance: Any) -> Place | None:
    """The place at which the mask of that schema refuses the instance."""
    return InstanceTrial(lower(schema, close=False, only_object=False)).find_refusal(instance)


def test_decimal_multiples_are_checked() -> None:
    schema = lower({"type": "number", "multipleOf": 0.25, "minimum": 0}, only_object=False)
    assert [finding.keyword for finding in schema.report.checked] == ["multipleOf"]
    trial = InstanceTrial(schema)
    assert [v for v in (0.25, 10.0, 3, 0.3) if trial.find_refusal(v) is not None] == []
    assert [schema.admits(value) for value in (0.25, 10.0, 3, 0.3)] == [True, True, True, False]


def test_multiples_next_to_a_bound() -> None:
    schema = {"type": "number", "multipleOf": 7, "minimum": -30.5, "maximum": 27}
    assert [v for v in (-28, 0, 21, 21.0) if find_refusal(schema, v) is not None] == []
    for value in (-35, 28, 3, 3.5, "x"):
        assert find_refusal(schema, value) is not None


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        ({"minimum": -(2**63), "maximum": 100}, [-35, 0, 70]),
        ({"minimum": -(10**15) + 7, "maximum": 2**63 - 1}, [-35, 0, 70]),
        ({"minimum": 10**16}, [10**16 + 2, 7 * 10**16]),
    ],
)
def test_multiples_far_away_are_told_or_checked(
    bounds: dict[str, float], values: list[Any]
) -> None:
    schema = lower({"type": "integer", "multipleOf": 7, **bounds}, only_object=False)
    trial = InstanceTrial(schema)
    assert [v for v in values if trial.find_refusal(v) is not None] == []
    report = schema.report
    assert "multipleOf" in [found.keyword for found in (*report.narrowed, *report.checked)]
    assert bool(report.checked) == (trial.find_refusal(values[0] + 1) is None)


def test_an_alternative_without_a_multiple_leaves_the_others() -> None:
    schema = {"type": ["number", "null"], "multipleOf": 25, "minimum": 26, "maximum": 49}
    assert find_refusal(schema, None) is None
    assert find_refusal(schema, 50) is not None


def test_a_multiple_beside_other_numbers() -> None:
    others = {"type": "number", "minimum": 10.5, "maximum": 20}
    schema = {"anyOf": [{"type": "integer", "multipleOf": 5}, others]}
    assert [v for v in (10, 15.0, 12.5) if find_refusal(schema, v) is not None] == []


def test_a_long_text_of_counted_words() -> None:
    schema = {"type": "string", "pattern": r"^(\S+\s+){0,199}\S+$", "maxLength": 1000}
    assert find_refusal(schema, _WORDS) is None
    checked = lower(schema, only_object=False).report.checked
    assert [finding.keyword for finding in checked] == ["maxLength"]


def test_doubles_beside_an_excluded_bound() -> None:
    schema = {"type": "number", "exclusiveMinimum": 0.001, "exclusiveMaximum": 1}
    for value in (0.30000000000000004, 0.9999999999999999, 0.0010000000000000002):
        assert find_refusal(schema, value) is None
    assert find_refusal(schema, 0.001) is not None
    assert find_refusal(schema, 1.0) is not None


def test_an_integer_of_64_bits_without_a_sign() -> None:
    schema = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
    assert find_refusal(schema, 2**64 - 1) is None
    assert find_refusal(schema, 2**64) is not None


@pytest.mark.parametrize(
    ("bounds", "largest", "smallest"),
    [
        ({}, 2**63 - 1, -(2**63)),
        ({"minimum": 1}, 2**63 - 1, None),
        ({"exclusiveMaximum": 5.5}, None, -(2**63)),
        ({"format": "int64"}, 2**63 - 1, -(2**63)),
        ({"format": "uint64", "minimum": 0}, 2**64 - 1, None),
        ({"format": "uint128", "minimum": 0}, 2**128 - 1, None),
        ({"type": ["integer", "null"]}, 2**63 - 1, -(2**63)),
    ],
)
def test_integers_without_a_bound_have_64_bits_in_the_mask(
    bounds: dict[str, Any], largest: int | None, smallest: int | None
) -> None:
    schema = lower({"type": "integer", **bounds}, only_object=False)
    trial = InstanceTrial(schema)
    for edge, step in ((largest, 1), (smallest, -1)):
        if edge is not None:
            assert trial.find_refusal(edge) is None
            assert trial.find_refusal(edge + step) is not None
            assert schema.admits(edge + step)
    (told,) = schema.report.narrowed
    assert (told.pointer, told.keyword) == ("", "type")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "minimum": 2**63}, 10**30),
        ({"type": "integer", "exclusiveMinimum": 2**63 - 1}, 10**30),
        ({"type": "integer", "maximum": 2**64}, -(10**30)),
        ({"type": "integer", "minimum": 0, "maximum": 10**30}, 10**30),
        ({"type": "integer", "not": {"const": 2**63 - 1}, "minimum": 2**63 - 1}, 10**30),
        ({"type": ["integer", "number"]}, 10**30),
        ({"type": "number"}, 10**30),
        ({"enum": [10**30, 1]}, 10**30),
        ({"type": "integer", "const": 10**30}, 10**30),
        ({}, 10**30),
    ],
)
def test_integers_that_a_schema_names_may_be_longer(schema: dict[str, Any], value: int) -> None:
    lowered = lower(schema, only_object=False)
    assert InstanceTrial(lowered).find_refusal(value) is None


def test_what_is_narrowed_is_reported() -> None:
    many = {f"k{number}": {} for number in range(65)}
    schema = {
        "type": "object",
        "properties": {"m": {"type": "number", "multipleOf": 5}, **many},
        "required": list(many),
    }
    found = {(f.pointer, f.keyword) for f in lower(schema).report.narrowed}
    assert found == {("", "required"), ("/properties/m", "multipleOf")}
    bounded = {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100}
    assert lower(bounded, only_object=False).report.narrowed == ()


def test_the_place_of_a_key_that_came_too_early() -> None:
    schema = {"type": "object", "required": [f"k{number}" for number in range(100, 165)]}
    ordered = dict.fromkeys(schema["required"], 1)
    assert find_refusal(schema, ordered) is None
    place = find_refusal(schema, {"k100": 1, "k164": 1, **ordered})
    assert place is not None
    assert (place.pointer, place.expected) == ("/k164", "'0'")


def test_names_that_are_listed_beside_a_number_of_keys() -> None:
    names = [f"k{number}" for number in range(100)]
    schema = {"type": "object", "propertyNames": {"enum": names}, "minProperties": 2}
    assert find_refusal(schema, {"k99": 1, "k0": 2}) is None
    assert "minProperties" in {finding.keyword for finding in lower(schema).report.checked}


def test_the_place_of_a_refusal() -> None:
    schema = {"type": "object", "properties": {"é": {"type": "array", "items": {"enum": ["a"]}}}}
    place = find_refusal(schema, {"é": ["a", "b"]})
    assert place == Place(pointer="/é/1", offset=14, found='b"]}', expected="'a'")


def test_a_long_instance_does_not_use_up_the_states_of_the_next_one():
    trial = InstanceTrial(lower({"type": "string", "maxLength": 50_000}, only_object=False))
    for text in ("k" * 40_000, "é" * 40_000, "日" * 40_000):
        assert trial.find_refusal(text) is None
