"""Single instances: valid ones get through in each usual spelling, refused ones name the place."""

from typing import Any

import pytest

from constrained.replay.instances import InstanceTrial, Place
from grammars.lowering.lower import lower

_WORDS = "one two three four five"


def find_refusal(schema: Any, instance: Any) -> Place | None:
    """The place at which the mask of that schema refuses the instance."""
    return InstanceTrial(lower(schema, close=False, only_object=False)).find_refusal(instance)


@pytest.mark.parametrize(
    ("step", "values"),
    [
        (0.25, [2.0, 2, 0.5, 0.25, -1.5, 0]),
        (0.01, [9.9, 10.0, 9.99, 3]),
        (5, [10, 10.0, -5.0, 0]),
    ],
)
def test_multiples_with_fewer_decimals(step: float, values: list[float]) -> None:
    schema = {"type": "number", "multipleOf": step}
    assert [v for v in values if find_refusal(schema, v) is not None] == []
    for value in (step / 2, step * 1.5, "x"):
        assert find_refusal(schema, value) is not None


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        ({"multipleOf": 0.01, "maximum": 0.75}, [0.7, 0.75, 0.01, -3.2]),
        ({"multipleOf": 0.01, "minimum": -0.93}, [-0.93, -0.9, 0.5, 12]),
        ({"multipleOf": 0.25, "exclusiveMinimum": 0.82, "maximum": 1.48}, [1.0, 1.25, 1]),
        ({"multipleOf": 0.25, "minimum": 0.6, "maximum": 0.9}, [0.75]),
        ({"multipleOf": 0.1, "minimum": 0.3, "maximum": 0.3}, [0.3]),
        ({"multipleOf": 0.01, "exclusiveMinimum": 0.56, "exclusiveMaximum": 0.58}, [0.57]),
        ({"multipleOf": 7, "minimum": -30.5, "maximum": 27}, [-28, 0, 21, 21.0]),
    ],
)
def test_multiples_next_to_a_bound(bounds: dict[str, float], values: list[float]) -> None:
    schema = {"type": "number", **bounds}
    assert [v for v in values if find_refusal(schema, v) is not None] == []
    step = bounds["multipleOf"]
    beyond = [bound + sign * step for bound, sign in find_ends(bounds)]
    assert all(find_refusal(schema, round(value, 2)) is not None for value in beyond)


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        ({"minimum": -(2**63), "maximum": 100}, [-35, 0, 70]),
        ({"minimum": -(10**15) + 7, "maximum": 2**63 - 1}, [-35, 0, 70]),
        ({"minimum": 10**16}, [10**16 + 2, 7e16]),
        ({"maximum": -1e300}, [-7e300]),
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


def find_ends(bounds: dict[str, float]) -> list[tuple[float, int]]:
    """Each bound, and the sign of what lies beyond it."""
    signs = {"minimum": -1, "exclusiveMinimum": -1, "maximum": 1, "exclusiveMaximum": 1}
    return [(bound, signs[name]) for name, bound in bounds.items() if name in signs]


def test_an_alternative_without_a_multiple_leaves_the_others() -> None:
    schema = {"type": ["number", "null"], "multipleOf": 0.25, "minimum": 0.6, "maximum": 0.7}
    assert find_refusal(schema, None) is None
    assert find_refusal(schema, 0.75) is not None


def test_a_multiple_beside_other_numbers() -> None:
    others = {"type": "number", "minimum": 10.5, "maximum": 20}
    schema = {"anyOf": [{"type": "integer", "multipleOf": 5}, others]}
    assert [v for v in (10, 15.0, 12.5) if find_refusal(schema, v) is not None] == []
    narrowed = lower(schema, only_object=False).report.narrowed
    assert ("", "anyOf") in [(finding.pointer, finding.keyword) for finding in narrowed]


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
