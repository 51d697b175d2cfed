"""Texts drawn from the grammar itself, as plain Lark, are accepted and read as valid calls."""

from dataclasses import replace

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from grammars.parse.parser import parse
from grammars.turn import KeyOrder, Turn
from tests.agreement.case_checks import QUIET, assert_obeys, by_name
from tests.agreement.chosen_formats import SCALE, each, is_json
from tests.agreement.matching import Masked
from tests.agreement.plain_lark import turns
from tests.agreement.sample_tools import offers
from tests.turn_strategies import Case, policies, states


@each(is_json)
@settings(QUIET, max_examples=10 * SCALE)
@given(data=st.data())
def test_what_the_grammar_describes_is_accepted_and_read(name: str, data: st.DataObject) -> None:
    format = by_name(name)
    tools = tuple(tool for tool, _ in data.draw(offers()))
    state = data.draw(states(format))
    policy = data.draw(policies([tool.name for tool in tools], format, state))
    grammar = Masked(format, tools, replace(policy, key_order=KeyOrder.SCHEMA), state)
    assume("::" not in grammar.grammar)  # plain Lark has no rules with a parameter
    described = turns(grammar.grammar)
    for _ in range(2):
        text = data.draw(described)
        assert grammar.accepts(text), (text, grammar.prefix(text), grammar.grammar)
        read = parse(text, format, tools, state)
        event(f"{len(read.calls)} calls")
        assert_obeys(read, Case(format, tools, policy, state, Turn(), text))
