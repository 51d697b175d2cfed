"""Schemas of tools that are not strict."""

from typing import Any

import pytest

from constrained.prompt.tools.shapes import read_tools
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.schema.lowering.tool_options import loosen
from grammars.schema.nodes import AnyValue, Array, Boolean, Null, Number, Object, String, Union
from grammars.turn import Policy, State, ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked
from tests.templates import tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "pattern": "^a+$"},
        "count": {"type": "integer", "minimum": 5},
        "kind": {"enum": ["a", 1, None, True, 2.5, [1], {"b": 1}]},
        "list": {"type": "array", "items": {"type": "number", "maximum": 1}, "minItems": 3},
        "pair": {"prefixItems": [{"const": "a"}], "items": False, "type": "array"},
        "self": {"$ref": "#"},
    },
    "required": ["text"],
    "additionalProperties": False,
}


def test_types_and_required_keys_are_left() -> None:
    schema = loosen(lower(SCHEMA))
    assert isinstance(schema.node, Object)
    nodes = {p.key: p.node for p in schema.node.properties}
    assert nodes["text"] == String()
    assert nodes["count"] == Number(integer=True)
    kinds = (String(), Number(True), Null(), Boolean(), Number(), Array(), Object())
    assert nodes["kind"] == Union(kinds)
    assert nodes["list"] == Array((), Number())
    assert nodes["pair"] == Array((String(),), AnyValue())
    assert [p.key for p in schema.node.properties if p.required] == ["text"]
    assert schema.node.additional == AnyValue()
    checked = {(f.pointer, f.keyword) for f in schema.report.checked}
    assert {("/properties/text", "pattern"), ("/properties/count", "minimum")} <= checked
    assert ("", "required") in {(f.pointer, f.keyword) for f in schema.report.enforced}
    assert schema.find_errors({"text": "b"})
    assert not schema.find_errors({"text": "a", "kind": "a", "count": 5})


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("single", [False, True], ids=["text", "token"])
def test_the_mask_of_a_loose_tool_holds_the_shape(format: Format, single: bool) -> None:
    given = tool("f", {"a": {"type": "string", "enum": ["x"]}, "b": {"type": "boolean"}})
    given["function"]["strict"] = False
    tools = read_tools([given])
    mask = Masked(format, tools, Policy.named("f"), State(), single)
    fits = {"a": "other", "b": True, "more": [1]}
    assert mask.accepts(_write(fits, format))
    assert not mask.accepts(_write({"a": "x"}, format))  # a required key is missing
    assert not mask.accepts(_write({"a": "x", "b": [1]}, format))


def _write(arguments: dict[str, Any], format: Format) -> str:
    return render(Turn(calls=(ToolCall("f", arguments),)), format)
