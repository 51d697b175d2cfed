"""Arguments in formats of raw text where a tool admits several objects: the lexer cannot tell which
of them is written before it has read what tells them apart."""

from typing import Any

import pytest

from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn
from grammars.wire.format import Format, NestedArguments, TaggedArguments
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked

TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
RAW = [f for f in FORMATS if isinstance(f.hole, TaggedArguments | NestedArguments)]


def pair(value: Any, kind: str) -> dict[str, Any]:
    properties = {"value": value, "kind": {"const": kind}}
    return {"type": "object", "properties": properties, "required": ["value", "kind"]}


KINDS = {
    "oneOf": [
        pair(TEXT, "a"),
        pair(INTEGER, "b"),
        pair({"type": ["boolean", "null"]}, "c"),
        pair({"enum": [1, "x"]}, "d"),
    ]
}
CONDITION = {
    "type": "object",
    "properties": {"country": TEXT, "zip": TEXT, "code": INTEGER},
    "if": {"properties": {"country": {"const": "US"}}, "required": ["country"]},
    "then": {"required": ["zip"]},
    "else": {"required": ["code"]},
}
OPEN = {
    "oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"],
         "additionalProperties": TEXT},
        {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"],
         "additionalProperties": INTEGER},
    ]
}  # fmt: skip
CASES: list[tuple[Any, list[dict[str, Any]]]] = [
    (
        KINDS,
        [
            {"value": "x", "kind": "a"},
            {"value": 1, "kind": "b"},
            {"kind": "b", "value": 1},
            {"value": True, "kind": "c"},
            {"value": None, "kind": "c"},
            {"value": 1, "kind": "d"},
        ],
    ),
    (
        CONDITION,
        [
            {"country": "US", "zip": "1"},
            {"zip": "1", "country": "US"},
            {"country": "U", "code": 2},
            {"code": 3},
        ],
    ),
    (
        OPEN,
        [
            {"x": "t", "kind": "a"},
            {"x": 1, "kind": "b"},
            {"kind": "b", "x": 1},
        ],
    ),
]


@pytest.mark.parametrize("format", RAW, ids=lambda format: format.name)
@pytest.mark.parametrize(("schema", "values"), CASES, ids=["kinds", "condition", "open"])
def test_a_scalar_is_written_beside_text_of_another_object(
    format: Format, schema: Any, values: list[dict[str, Any]]
) -> None:
    tools = (Tool("f", lower(schema)),)
    masked = Masked(format, tools, Policy(Choice.REQUIRED), State())
    for value in values:
        text = render(Turn(calls=(ToolCall("f", value),)), format, tools)
        assert masked.accepts(text), masked.prefix(text)
