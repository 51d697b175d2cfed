"""Members and items that depend on each other, in a format of each kind: the mask takes what is
valid, and what is cut anywhere can be completed."""

from typing import Any

import jsonschema_rs
import pytest

from grammars.errors import SchemaError
from grammars.parse.render import render
from grammars.schema.counted import Counted, Distinct, find_items
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Array, Boolean, Constant, Contains, Null
from grammars.turn import Choice, KeyOrder, Policy, State, Tool, ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked
from tests.turn_completer import turn_completer

NAMES = ("hermes", "qwen3_coder", "lfm2", "minimax_m3", "gemma4", "glm45")
SOME = [f for f in FORMATS if f.name in NAMES]
RAW = ("qwen3_coder", "glm45", "minimax_m3")  # what is written as 1 is a string, too
ORDERS = list(KeyOrder)
LISTS: list[Any] = [
    [], [1], ["a"], ["a", 1], [1, 1], [1, 2], [1, 2, "b"], ["b", "a", "b"], [2, 1, 1, 3],
    [1, 2, 3, 4],
    ["a", "b", "c", "d", "e", "f"], ["f", "a"], [None], [None, 1],
]  # fmt: skip
ITEMS: list[dict[str, Any]] = [
    {"contains": {"type": "string"}},
    {"contains": {"const": 1}, "items": {"type": "integer"}},
    {"contains": {"type": "integer"}, "minContains": 2},
    {"contains": {"type": "number"}, "maxContains": 2, "minContains": 1},
    {"contains": {"type": "string"}, "minContains": 0, "maxContains": 1},
    {"contains": {"minimum": 2}, "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
    {"contains": {"const": "b"}, "prefixItems": [{}, {}, {"type": "string"}], "items": False},
    {"items": {"enum": ["a", "b", "c", "d", "e", "f", 1, 2]}, "uniqueItems": True},
    {"items": {"enum": ["a", "b", "c", "d", "e", "f", 1]}, "uniqueItems": True, "minItems": 2,
     "maxItems": 5},
    {"items": {"enum": [1, 2, 3]}, "uniqueItems": True, "contains": {"const": 1}},
]  # fmt: skip
OBJECTS: list[Any] = [
    {}, {"a": 1}, {"b": "b"}, {"xa": 1}, {"xa": "a"}, {"ay": "aa"}, {"xy": "aa"}, {"xy": "a"},
    {"xy": 1}, {"a": 1, "b": "b"}, {"xa": "a", "n": 1}, {"n": 1}, {"n": None}, {"b": "b", "a": 0},
]  # fmt: skip
MEMBERS: list[dict[str, Any]] = [
    {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
    {"patternProperties": {"^x": {"type": "string"}, "y$": {"minLength": 2, "type": "string"}}},
    {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": {"type": "integer"},
     "properties": {"b": {"type": "string"}}, "maxProperties": 1},
    {"propertyNames": {"pattern": "^[xa]", "maxLength": 2}},
    {"propertyNames": {"maxLength": 1}, "properties": {"a": {"type": "integer"}}},
    {"properties": {"xa": False, "a": {}}, "additionalProperties": {"type": ["string", "null"]}},
    {"properties": {"a": {}}, "patternProperties": {"^x": {}}, "unevaluatedProperties": False},
    {"properties": {"a": {"type": "integer"}}, "allOf": [{"properties": {"b": {}}}],
     "unevaluatedProperties": {"type": "null"}},
    {"anyOf": [{"properties": {"a": {}}, "required": ["a"]},
               {"properties": {"b": {}}, "required": ["b"]}], "unevaluatedProperties": False},
    {"if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
     "then": {"properties": {"b": {}}}, "else": {"properties": {"n": {}}},
     "unevaluatedProperties": False},
]  # fmt: skip


def hold(format: Format, schema: Any, values: list[Any], order: KeyOrder) -> None:
    """Is just what is valid taken, and each beginning of it completed?"""
    lowered = lower(schema, close=False)
    assert not lowered.report.checked
    tool = Tool("f", lowered)
    policy = Policy(Choice.REQUIRED, key_order=order)
    is_valid = jsonschema_rs.validator_for(schema).is_valid
    grammar = Masked(format, [tool], policy, State())
    completer = turn_completer(format, [tool], policy, State())
    taken = 0
    for value in values:
        text = render(Turn(calls=(ToolCall("f", value),)), format)
        accepted = grammar.accepts(text)
        valid = is_valid(value)
        in_order = order is KeyOrder.ANY or len(value.get("v", value)) < 2
        assert accepted <= valid or format.name in RAW, value
        assert accepted >= valid or not in_order, value
        taken += accepted
        for cut in range(0, len(text), 11):
            if grammar.prefix(text[:cut]) == text[:cut]:
                whole = completer.complete(text[:cut])
                assert whole is not None, text[:cut]
                assert grammar.accepts(text[:cut] + whole), (text[:cut], whole)
    assert taken


@pytest.mark.parametrize("format", SOME, ids=lambda f: f.name)
@pytest.mark.parametrize("items", ITEMS, ids=str)
def test_items(format: Format, items: Any) -> None:
    schema = {"type": "object", "properties": {"v": {"type": "array", **items}}, "required": ["v"]}
    if format.name == "minimax_m3" and "contains" in items and "uniqueItems" not in items:
        with pytest.raises(SchemaError, match="cannot be written"):
            hold(format, schema, [], KeyOrder.ANY)
        return
    hold(format, schema, [{"v": value} for value in LISTS], KeyOrder.ANY)


@pytest.mark.parametrize("format", SOME, ids=lambda f: f.name)
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("members", MEMBERS, ids=str)
def test_members(format: Format, order: KeyOrder, members: Any) -> None:
    hold(format, {"type": "object", **members}, OBJECTS, order)
    inner = {"type": "object", "properties": {"v": {"type": "object", **members}}}
    hold(format, inner, [{"v": value} for value in OBJECTS], order)


def test_what_lists_depend_on() -> None:
    assert find_items(Array()) is None
    contains = Contains((Null(),), (Boolean(),), 1, 1)
    counted = find_items(Array(items=Boolean(), max_items=2, contains=contains))
    assert isinstance(counted, Counted)
    assert [s.after for s in counted.steps((0, 0))] == [(1, 1), (1, 0)]
    assert [s.node for s in counted.steps((1, 0))] == [Null()]
    distinct = find_items(Array(items=Constant((1, 2, 3)), min_items=2, distinct=True))
    assert isinstance(distinct, Distinct)
    assert [s.node for s in distinct.steps((0b10, 0))] == [Constant((1,)), Constant((3,))]


@pytest.mark.parametrize(
    "items",
    [
        {"contains": False},
        {"contains": {"type": "string"}, "items": {"type": "integer"}},
        {"contains": {}, "minContains": 3, "maxItems": 2},
        {"contains": {}, "minContains": 3, "maxContains": 2},
        {"items": {"enum": list(range(9))}, "uniqueItems": True, "minItems": 10},
    ],
)
def test_lists_that_cannot_be(items: Any) -> None:
    with pytest.raises(SchemaError, match="allows no value"):
        lower({"type": "array", **items}, only_object=False)


@pytest.mark.parametrize(
    ("items", "checked"),
    [
        ({"contains": {"pattern": "(a|b)\\1"}, "maxContains": 1}, {"contains", "maxContains"}),
        ({"contains": {"multipleOf": 2}, "maxContains": 1}, {"contains", "maxContains"}),
        ({"contains": {"type": "null"}, "minContains": 400}, {"contains", "minContains"}),
        ({"contains": {"type": "null"}, "minContains": 0}, set[str]()),
        ({"items": {"enum": [*range(70)]}, "uniqueItems": True}, {"uniqueItems"}),
        ({"unevaluatedItems": False, "contains": {}}, {"unevaluatedItems"}),
        ({"unevaluatedItems": False, "prefixItems": [{}]}, set[str]()),
    ],
)
def test_what_is_too_much_is_checked(items: Any, checked: set[str]) -> None:
    schema = lower({"type": "array", **items}, only_object=False)
    assert {f.keyword for f in schema.report.checked} == checked
