"""llguidance captures the calls that the parser reads: two readings of one text."""

import json
import re
from typing import Any

import llguidance
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import OWN_LIMITS
from grammars.parse.parser import parse
from grammars.spelling.coerce import coerce_members
from grammars.turn import Tool
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format import JsonArguments, JsonCall, TaggedArguments
from grammars.wire.formats import QWEN3_CODER
from tests.agreement.case_checks import QUIET, by_name, modes
from tests.agreement.chosen_formats import SCALE, each, is_json
from tests.agreement.sample_tools import offers
from tests.turn_strategies import Case, cases

ARGUMENT = re.compile(r"<parameter=([^>]*)>\n((?s:.*?))\n</parameter>\n(?=<parameter=|</function>)")


@each(lambda f: is_json(f) and (isinstance(f.hole, JsonCall | JsonArguments) or f == QWEN3_CODER))
@settings(QUIET, max_examples=15 * SCALE)
@given(data=st.data())
def test_what_is_captured_is_what_is_read(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name), offers()))
    tools = {tool.name: tool for tool in case.tools}
    calls = parse(case.text, case.format, case.tools, case.state).calls
    # llguidance keeps what is captured twice, under one name and with one text, only once.
    read = dict.fromkeys((call.name, json.dumps(call.arguments)) for call in calls)
    for single in modes(case):
        captured = [
            (name, json.dumps(read_arguments(text, case, tools[name])))
            for name, text in capture(case, single)
        ]
        assert list(dict.fromkeys(captured)) == list(read)


def capture(case: Case, single: bool) -> list[tuple[str, str]]:
    """The names and argument texts that the grammar has captured."""
    vocabulary, tokenizer = byte_tokenizer(case.format.atoms if single else ())
    ids = vocabulary.find_markers(case.format.texts)
    request = (case.format, case.tools, case.policy, case.state, ids)
    grammar = build_grammar(*request, captures=True)
    assert "capture" not in build_grammar(*request)
    matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0, limits=OWN_LIMITS)
    for token in vocabulary.encode_marked(case.text, ids):
        matcher.consume_token(token)
    assert matcher.is_accepting(), case.text
    return [(name, text.decode()) for name, text in matcher.get_captures()]


def read_arguments(text: str, case: Case, tool: Tool) -> dict[str, Any]:
    """The arguments of one call, read without the parser."""
    if not isinstance(case.format.hole, TaggedArguments):
        return json.loads(text)
    raws = {match[1]: match[2] for match in ARGUMENT.finditer(text)}
    arguments, errors = coerce_members(raws, tool.schema)
    assert not errors
    return arguments
