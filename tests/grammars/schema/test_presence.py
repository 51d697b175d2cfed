"""Conditions on which keys are present: enforced by the mask in any order, and by the completer."""

import random
from itertools import combinations
from typing import Any

import jsonschema_rs
import pytest

from grammars.errors import SchemaError
from grammars.parse.render import render
from grammars.schema.bits import ALWAYS, NEVER, conjoin, count, disjoin, negate
from grammars.schema.extent import bound_length
from grammars.schema.lowering.lower import lower
from grammars.schema.presence import find_keys
from grammars.turn import Choice, KeyOrder, Policy, State, Tool, ToolCall, Turn
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.values import Values
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked
from tests.turn_completer import turn_completer

NAMES = ("hermes", "qwen3_coder", "lfm2", "minimax_m3", "gemma4")  # a format of each kind
SOME = [f for f in FORMATS if f.name in NAMES]
EACH = pytest.mark.parametrize("format", SOME, ids=lambda f: f.name)
INTEGER = {"type": "integer"}


def need(*keys: str) -> dict[str, Any]:
    return {"required": list(keys)}


CONDITIONS: list[dict[str, Any]] = [
    {"anyOf": [need("a"), need("b", "c")]},
    {"oneOf": [need("a"), need("b")]},
    {"oneOf": [need("a"), need("b"), need("c")], "not": need("c", "d")},
    {"not": need("a", "b")},
    {"not": {"anyOf": [need("a"), need("b")]}},
    {"if": need("a"), "then": need("b"), "else": need("c")},
    {"if": need("a"), "then": {"not": need("d")}},
    {"dependentRequired": {"a": ["b"], "b": ["c"]}},
    {"dependentSchemas": {"a": {"properties": {"b": False}}}},
    {"allOf": [{"anyOf": [need("a"), need("b")]}, {"anyOf": [need("c"), need("d")]}]},
    {"minProperties": 1},
    {"minProperties": 2},
    {"maxProperties": 2},
    {"minProperties": 2, "maxProperties": 3},
]


def make(condition: dict[str, Any], **more: Any) -> dict[str, Any]:
    properties = dict.fromkeys("abcd", INTEGER)
    return {"type": "object", "properties": properties, **condition, **more}


def write(format: Format, keys: list[str]) -> str:
    return render(Turn(calls=(ToolCall("f", dict.fromkeys(keys, 1)),)), format)


def test_a_formula_has_the_order_of_the_schema() -> None:
    keys = [f"k{i}" for i in range(4)]
    parts: dict[str, Any] = {
        "required": ["k0"],
        "not": need("k1"),
        "anyOf": [need("k2"), need("k3")],
    }
    schema = {"type": "object", "if": need("k"), "then": parts}
    (object_,) = lower(schema).objects
    assert find_keys(object_.presence.formula) == ("k", *keys)


@EACH
@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
@pytest.mark.parametrize("rest", [False, INTEGER], ids=["closed", "open"])
@pytest.mark.parametrize("required", [[], ["d"]], ids=["", "d"])
def test_the_mask_takes_what_is_valid(
    format: Format, condition: dict[str, Any], rest: Any, required: list[str]
) -> None:
    schema = make(condition, required=required, additionalProperties=rest)
    tool = Tool("f", lower(schema))
    policy = Policy(Choice.REQUIRED)
    is_valid = jsonschema_rs.validator_for(schema).is_valid
    grammar = Masked(format, [tool], policy, State())
    completer = turn_completer(format, [tool], policy, State())
    rng = random.Random(0)
    keys = "abcd" if rest is False else "abcdzy"
    for count_ in range(len(keys) + 1):
        for some in combinations(keys, count_):
            shuffled = rng.sample(some, len(some))
            text = write(format, shuffled)
            assert grammar.accepts(text) == is_valid(dict.fromkeys(some, 1)), shuffled
            cut = text[: rng.randrange(len(text))]
            if grammar.prefix(cut) == cut:
                whole = completer.complete(cut)
                assert whole is not None
                assert grammar.accepts(cut + whole), (cut, whole)
    counted = condition.get("minProperties", 0) > 1 and rest is not False
    assert [f.keyword for f in tool.schema.report.checked] == ["minProperties"] * counted


@EACH
def test_conditions_are_held_in_schema_order_too(format: Format) -> None:
    tool = Tool("f", lower(make({"oneOf": [need("a"), need("b")]})))
    policy = Policy(Choice.REQUIRED, key_order=KeyOrder.SCHEMA)
    grammar = Masked(format, [tool], policy, State())
    assert grammar.accepts(write(format, ["a", "c"]))
    assert not grammar.accepts(write(format, ["a", "b"]))
    assert not grammar.accepts(write(format, ["c"]))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"minProperties": 3, "maxProperties": 1}, "allows no object"),
        ({"not": need("a"), "required": ["a"]}, "allows no object"),
        ({"minProperties": 5}, "allows no object"),
        ({"maxProperties": 0, "required": ["a"]}, "allows no object"),
    ],
)
def test_conditions_that_nothing_fulfils(condition: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        lower(make(condition))


@pytest.mark.parametrize(
    ("schema", "checked"),
    [
        ({**make({"not": need("a")}), "minProperties": 1}, ["minProperties"]),
        ({"type": "object", "not": need(*"abcdefghij")}, []),
        ({"type": "object", "maxProperties": 65}, ["maxProperties"]),
        ({"type": "object", "maxProperties": 64}, []),
        ({"type": "object", "not": {"required": ["a"], "properties": {"a": INTEGER}}}, ["not"]),
    ],
)
def test_what_is_too_much_for_a_rule_is_checked(schema: dict[str, Any], checked: list[str]) -> None:
    found = (f.keyword for f in lower(schema).report.checked)
    assert list(dict.fromkeys(found)) == checked


def test_keys_that_are_asked_for_are_declared() -> None:
    node = lower(make({"anyOf": [need("a"), need("e")]})).objects[0]
    assert [p.key for p in node.properties] == ["a", "b", "c", "d", "e"]
    node = lower(make({"not": need("e")})).objects[0]
    assert [p.key for p in node.properties] == ["a", "b", "c", "d"]


def test_other_values_than_objects() -> None:
    def kinds(schema: dict[str, Any]) -> int:
        node = lower(schema, only_object=False).node
        return len(getattr(node, "branches", (node,)))

    assert kinds({"anyOf": [need("a"), need("b")]}) == 6
    assert kinds({"not": need("a")}) == 1
    assert kinds({"oneOf": [need("a"), need("b")]}) == 1
    with pytest.raises(SchemaError):
        lower({"type": "string", "not": need("a")}, only_object=False)


def test_many_keys_are_much_text() -> None:
    values = {"type": "string", "minLength": 5}
    schema = lower({"type": "object", "minProperties": 20, "additionalProperties": values})
    builder = GrammarBuilder()
    value = Values(builder).value(schema.node, schema.definitions)
    shortest = Completer(builder.build(value)).complete("")
    assert 20 * 5 < len(shortest or "") <= bound_length(schema)


def test_conditions_on_bits() -> None:
    a, b = count(0, 1, 1), count(1, 2, 1)
    assert [disjoin([a, b]).holds(bits) for bits in range(4)] == [False, True, True, True]
    assert [conjoin([a, b]).holds(bits) for bits in range(4)] == [False, False, False, True]
    assert conjoin([a, negate(a)]) == NEVER
    assert conjoin([]) == ALWAYS
    assert count(0, 3, 0) == ALWAYS
    assert count(0, 3, 4) == NEVER
    assert [count(1, 4, 1, 2).holds(bits) for bits in (0, 1, 2, 6, 14)] == [0, 0, 1, 1, 0]
    assert str(conjoin([count(0, 3, 3), count(0, 4, 1, 2)])) == (
        "and(is_ones([0:3]), and(bit_count_ge([0:4], 1), bit_count_le([0:4], 2)))"
    )
