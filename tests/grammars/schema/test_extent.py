"""Bounds of values: what a completion may have to write."""

from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.schema.extent import bound_rest
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Schema
from grammars.spelling.styles import spell
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.values import Values
from grammars.wire.format import JsonStyle
from tests.schema_strategies import fitting, parameters


def complete_value(schema: Schema, text: str) -> str | None:
    builder = GrammarBuilder()
    value = Values(builder).value(schema.node, schema.definitions)
    completion = Completer(builder.build(value)).complete(text)
    assert completion is None or isinstance(completion, str)
    return completion


@given(data=st.data())
@settings(max_examples=30)
def test_no_rest_is_longer_than_its_bound(data: st.DataObject) -> None:
    shape = data.draw(parameters())
    schema = lower(shape.schema)
    bound = bound_rest(schema)
    text = spell(data.draw(fitting(shape)), JsonStyle())
    at = data.draw(st.integers(0, len(text)))
    rest = complete_value(schema, text[:at])
    if bound is not None and rest is not None:
        assert len(rest.encode()) <= bound


def test_values_that_nest_without_end_have_no_bound() -> None:
    chain = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert bound_rest(lower(chain)) is None
    assert bound_rest(lower({"type": "object", "properties": {"any": {}}})) is None


def test_each_reference_to_a_definition_counts_for_a_rest() -> None:
    name = {"enum": ["x" * 500]}
    properties = {key: {"$ref": "#/$defs/name"} for key in "abc"}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    assert (bound_rest(lower({**schema, "$defs": {"name": name}})) or 0) >= 3 * 500


def test_members_that_may_be_missing_are_not_all_counted() -> None:
    properties = {f"p{number}": {"type": "string"} for number in range(1_000)}
    assert (bound_rest(lower({"type": "object", "properties": properties})) or 1_000) < 200
