"""Nodes that exclude each other, compared with the validator."""

from itertools import combinations
from typing import Any

import pytest

from constrained.inspect.replay.schemas import InstanceTrial
from grammars.schema.lowering.lower import lower
from grammars.schema.lowering.nodes.overlap import find_overlaps
from grammars.schema.nodes import Schema, Union


def write_object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}


A, B, C = {"const": "a"}, {"const": "b"}, {"enum": ["a", "c", 3]}
SCHEMAS: dict[str, Any] = {
    "any string": {"type": "string"},
    "auto": {"type": "string", "enum": ["auto"]},
    "any integer": {"type": "integer"},
    "up to 2": {"type": "integer", "maximum": 2},
    "above 2": {"type": "number", "exclusiveMinimum": 2},
    "zero": {"const": 0},
    "twos": {"type": "number", "multipleOf": 2},
    "string or null": {"type": ["string", "null"]},
    "number or flag": {"anyOf": [{"type": "number"}, {"type": "boolean"}]},
    "list": {"type": "array"},
    "one item": {"type": "array", "maxItems": 1},
    "two items": {"type": "array", "minItems": 2},
    "strings": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "numbers": {"type": "array", "items": {"type": "number"}, "minItems": 1},
    "kind a": write_object("kind", kind=A),
    "kind b": write_object("kind", kind=B, x={"type": "string"}),
    "kind a or c": write_object("kind", kind=C),
    "kind a, optional": write_object(kind=A),
    "kind b, optional": write_object(kind=B),
    "text first, if any": {"type": "array", "items": {"type": "string"}},
    "inner a": write_object("in", **{"in": write_object("kind", kind=A)}),
    "inner b": write_object("in", **{"in": write_object("kind", kind=B)}),
    "by id": write_object("id", id={"type": "integer"}),
    "by name": write_object("name", name={"type": "string"}),
    "by name, id": write_object("name", name={"type": "string"}, id={"type": "integer"}),
    "closed": {**write_object(x={"type": "string"}), "additionalProperties": False},
    "anything": {"minLength": 1},
}
VALUES: list[Any] = [
    None, True, 0, 1, 2, 2.5, 3, -1, 0.5, "", "auto", "a", [], ["a"], [1], ["a", "b"], [1, 2],
    ["a", 1], {}, {"kind": "a"}, {"kind": "b"}, {"kind": "c"}, {"kind": "a", "x": "y"},
    {"x": "y"}, {"in": {"kind": "a"}}, {"in": {"kind": "b"}}, {"in": {}}, {"id": 1},
    {"name": "n"}, {"name": "n", "id": 1}, {"kind": 3},
]  # fmt: skip


def lower_one_of(*names: str, close: bool) -> Schema:
    parts = [SCHEMAS[name] for name in names]
    schema = {"type": "object", "properties": {"x": {"oneOf": parts}}, "required": ["x"]}
    return lower(schema, close=close)


@pytest.mark.parametrize(
    "names",
    [
        ("auto", "any integer"),
        ("any string", "any integer", "list", "kind a"),
        ("zero", "above 2"),
        ("up to 2", "above 2"),
        ("string or null", "number or flag", "kind a or c"),
        ("one item", "two items"),
        ("strings", "numbers"),
        ("inner a", "inner b"),
        ("auto", "kind a", "kind b", "one item"),
        ("kind a", "kind b, optional"),  # pydantic: a tag with a default is not required
        ("numbers", "text first, if any"),
    ],
)
def test_branches_that_exclude_each_other_are_enforced(names: tuple[str, ...]) -> None:
    assert lower_one_of(*names, close=False).report.checked == ()


def test_closed_objects_exclude_each_other_if_each_lacks_a_key_of_the_other() -> None:
    nodes = [
        lower_one(SCHEMAS[name], close=True).node for name in ("by id", "by name", "by name, id")
    ]
    assert find_overlaps(nodes, {}) == [[2], [2], [0, 1]]


@pytest.mark.parametrize("close", [False, True])
def test_no_value_fits_two_branches_that_exclude_each_other(close: bool) -> None:
    lowered = {name: lower_one(schema, close=close) for name, schema in SCHEMAS.items()}
    written = find_fitting(close=close)  # what the mask allows is closed, what is meant is not
    meant = find_fitting(close=False)
    claims = 0
    for a, b in combinations(SCHEMAS, 2):
        if find_overlaps([lowered[a].node, lowered[b].node], {}) == [[], []]:
            claims += 1
            assert not written[a] & meant[b], (a, b)
            assert not written[b] & meant[a], (a, b)
    assert claims > 150


def lower_one(schema: Any, *, close: bool) -> Schema:
    return lower(schema, close=close, only_object=False)


def find_fitting(*, close: bool) -> dict[str, set[int]]:
    """By name, the numbers of the values that fit."""
    fitting: dict[str, set[int]] = {}
    for name, schema in SCHEMAS.items():
        admits = lower_one(schema, close=close).admits
        fitting[name] = {number for number, value in enumerate(VALUES) if admits(value)}
    return fitting


def test_an_enum_with_one_value_twice_does_not_overlap_itself() -> None:
    """1 and 1.0: the branch was dropped, with its other values."""
    twice: Any = {"enum": [1, 1.0, None]}
    tagged = [write_object("k", k={"enum": [[i], [float(i)]]}) for i in (1, 2)]
    schema = lower_one({"oneOf": [*tagged, twice]}, close=True)
    assert not schema.report.checked
    nodes = [lower_one(part, close=True).node for part in (*tagged, twice)]
    assert schema.node == Union(tuple(nodes))
    overlapping = lower_one({"oneOf": [{"type": "integer", "minimum": 0}, twice]}, close=True)
    trial = InstanceTrial(overlapping)
    taken = [trial.find_refusal(value) is None for value in (1, 2, None)]
    assert taken == [bool(overlapping.report.checked), True, True]


def test_a_branch_that_refers_to_what_holds_it_is_not_taken_for_another() -> None:
    node = {
        "type": "object",
        "properties": {"x": {"oneOf": [{"$ref": "#/$defs/Node"}, {"type": "object"}]}},
    }
    schema = lower({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert {finding.keyword for finding in schema.report.checked} == {"oneOf"}


def test_a_key_that_only_a_closed_object_forbids_tells_no_branches_apart() -> None:
    pattern = {
        **write_object("b", d={"type": "string"}),
        "patternProperties": {"^a": {"minimum": 2}},
    }
    branches = [write_object("b", b={"type": "integer"}), pattern]
    for one_of in (branches, [write_object("in", **{"in": branch}) for branch in branches]):
        schema = {"type": "object", "properties": {"x": {"oneOf": one_of}}, "required": ["x"]}
        assert [finding.keyword for finding in lower(schema).report.checked] == ["oneOf"]


@pytest.mark.parametrize(
    "branches",
    [
        [{"const": f"v{number}", "title": f"V {number}"} for number in range(2_000)],
        [{"enum": [number, -1 - number]} for number in range(2_000)],
        [{"type": "null"}, *(write_object("k", k={"const": number}) for number in range(1_000))],
    ],
    ids=["labelled", "pairs", "null and tagged"],
)
def test_many_branches_are_not_compared_pair_by_pair(branches: list[Any]) -> None:
    tagged = [
        {"type": "object", "required": ["k"], **b} if "properties" in b else b for b in branches
    ]
    schema = {"type": "object", "properties": {"x": {"oneOf": tagged}}}
    assert lower(schema).report.checked == ()
