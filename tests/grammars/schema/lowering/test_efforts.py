"""Schemas that are lowered with less effort allow more, and nothing less."""

from typing import Any

import pytest

from constrained.inspect.replay.schemas import InstanceTrial
from grammars.schema.json_values import Json
from grammars.schema.lowering import lower as lowering
from grammars.schema.lowering.lower import EFFORTS, LoweringEffort, lower

INTEGER: Json = {"type": "integer"}


def declare(*keys: str) -> dict[str, Any]:
    """An object that has to have these keys."""
    return {"properties": dict.fromkeys(keys, INTEGER), "required": [*keys]}


def tag(kind: str) -> dict[str, Any]:
    return {"properties": {"kind": {"const": kind}}, "required": ["kind"]}


EITHER = {"allOf": [{"anyOf": [declare(f"p{i}"), declare(f"q{i}")]} for i in range(12)]}
CASES: list[tuple[dict[str, Any], list[Json]]] = [
    (
        {"properties": {"b": INTEGER}, **EITHER},
        [{f"{'pq'[i % 2]}{i}": i for i in range(12)}, {"b": 1} | {f"q{i}": i for i in range(12)}],
    ),
    (
        {
            "properties": {"kind": {"enum": ["a", "b"]}},
            "allOf": [
                {"if": tag("a"), "then": declare("x"), "else": declare("y")},
                {"if": tag("b"), "then": {"$ref": "#/$defs/z"}},
            ],
            "$defs": {"z": declare("z")},
        },
        [{"kind": "a", "x": 1}, {"kind": "b", "y": 1, "z": 2}],
    ),
    (
        {"properties": {"kind": {}}, "if": tag("a"), "then": {"required": ["x"]}},
        [{"kind": "a", "x": True}, {"kind": "b"}],
    ),
    (
        {"properties": {"a": INTEGER}, "dependentSchemas": {"a": declare("b")}},
        [{"a": 1, "b": 2}, {}],
    ),
    (
        {
            "$ref": "#/$defs/node",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {
                        "left": {"$ref": "#/$defs/node", **declare("l")},
                        "right": {"allOf": [{"$ref": "#/$defs/node"}, declare("r")]},
                    },
                }
            },
        },
        [{"name": "a", "left": {"l": 1, "right": {"r": 2, "left": {"l": 3}}}}, {"name": "b"}],
    ),
    (
        {
            "oneOf": [
                {
                    **tag("a"),
                    "properties": {"kind": {"const": "a"}, "c": {"allOf": [declare("d")]}},
                },
                {"allOf": [tag("b"), {"anyOf": [declare("e"), declare("f")]}]},
            ]
        },
        [{"kind": "a", "c": {"d": 1}}, {"kind": "b", "f": 1}],
    ),
]


@pytest.mark.parametrize("close", [True, False])
@pytest.mark.parametrize("effort", [EFFORTS[1], EFFORTS[-1]])
@pytest.mark.parametrize(("source", "values"), CASES)
def test_the_mask_of_less_effort_takes_what_is_valid(
    source: dict[str, Any],
    values: list[Json],
    effort: LoweringEffort,
    close: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    within = LoweringEffort(steps=2_000_000, splits=effort.splits, nested=effort.nested)
    monkeypatch.setattr(lowering, "EFFORTS", (within,))
    schema = lower({"type": "object", **source}, close=close)
    trial = InstanceTrial(schema)
    for value in values:
        assert trial.find_refusal(value) is None
        assert schema.admits(value)
