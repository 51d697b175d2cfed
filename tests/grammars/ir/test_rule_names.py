"""The rules that each piece of a text is read by."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.tools.shapes import read_tools
from grammars.build.turn import build_turn
from grammars.formats import FORMATS, HERMES
from grammars.ir.grammar import Grammar, GrammarBuilder
from grammars.ir.nodes import EmbeddedLark, Literal, Pattern, choice, many, sequence
from grammars.ir.rule_names import UNKNOWN, RuleNames, name_rules, print_named
from grammars.render import render
from grammars.turn import Choice, Policy, State, ToolCall, Turn
from grammars.wire.format import Format
from tests.templates import tool

TOOLS = read_tools([tool("look_up", {"city": {"type": "string"}, "count": {"type": "integer"}})])
TURN = Turn(calls=(ToolCall("look_up", {"city": "Rome", "count": 12}),))
CALL = Policy(choice=Choice.REQUIRED)


def make_greeting() -> Grammar:
    """Greetings, each of a word and names."""
    builder = GrammarBuilder()
    name = builder.terminal(Pattern("[a-z]+"), "NAME")
    listed = builder.define(
        sequence(Literal("("), many(sequence(name, Literal(","))), Literal(")"))
    )
    greeting = builder.define(sequence(choice([Literal("hi"), Literal("bye")]), listed), "greeting")
    return builder.build(many(greeting))


def test_pieces_are_named():
    names = name_rules(make_greeting(), "", ["h", "i(", "ann", ",bob", ",", ")", "b"])
    assert names == [
        RuleNames(("greeting_2",)),
        RuleNames(("r_1",)),
        RuleNames(("r_1",), ("NAME_0",)),
        RuleNames(("r_1",), ("NAME_0",)),
        RuleNames(("r_1",)),
        RuleNames(("r_1",)),
        RuleNames(("greeting_2",)),
    ]


def test_what_is_given_stands_in_front():
    assert name_rules(make_greeting(), "hi(an", ["n"]) == [RuleNames(("r_1",), ("NAME_0",))]


def test_a_rule_is_printed_as_lark_has_it():
    grammar = make_greeting()
    assert print_named(grammar, "NAME_0") == "NAME_0: /[a-z]+/"
    for name in ("start", "r_1", "greeting_2"):
        assert print_named(grammar, name) in grammar.lark.splitlines()


def test_behind_what_the_grammar_refuses_nothing_is_known():
    assert name_rules(make_greeting(), "", ["hi", "!", "hi"]) == [
        RuleNames(("greeting_2",)),
        UNKNOWN,
        UNKNOWN,
    ]


def test_a_grammar_of_a_users_own_names_nothing():
    grammar = GrammarBuilder().build(sequence(Literal("a"), EmbeddedLark('start: "b"')))
    assert name_rules(grammar, "", ["a", "b"])[1] == UNKNOWN


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@settings(max_examples=3)
@given(data=st.data())
def test_every_piece_of_a_call_has_a_rule_that_is_there(format: Format, data: st.DataObject):
    text = render(TURN, format, TOOLS, State(calls=0))
    markers = {marker: number for number, marker in enumerate(format.markers)}
    grammar = build_turn(
        format, TOOLS, CALL, State(calls=0), data.draw(st.sampled_from([{}, markers]))
    )
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=12)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for piece, names in zip(pieces, name_rules(grammar, "", pieces), strict=True):
        assert names.rules, piece
        for name in names.rules + names.terminals:
            assert name == "start" or name in grammar.rules


def test_a_value_has_its_terminal():
    text = render(TURN, HERMES, TOOLS, State(calls=0))
    grammar = build_turn(HERMES, TOOLS, CALL)
    at = text.index("Rome") + 2
    [_, names, _] = name_rules(grammar, "", [text[:at], text[at : at + 1], text[at + 1 :]])
    assert any("STR" in name.upper() or "JSON" in name.upper() for name in names.terminals), names
