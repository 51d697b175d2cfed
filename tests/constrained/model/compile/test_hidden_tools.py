"""Tools of the grammar that the prompt does not have."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.agent.search.tool_search import ToolSearch
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.compile.compiler import Compiler
from constrained.prompt.format_selection.generic import CHATML
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.shapes import read_tools
from grammars.errors import PolicyError, SchemaError, ToolError
from grammars.parse.render import render
from grammars.turn import Tool, ToolCall, Turn
from grammars.wire.format import Content, Format
from grammars.wire.formats import FORMATS
from tests.scripted_model import scripted
from tests.templates import HERMES, PING, hermes_call, tool

TAUGHT = [format for format in FORMATS if format.contents == (Content(),) and not format.tail]
NAMES = ("read_file", "read", "sendMail", "clock")
TOOLS = [tool(name, {"count": {"type": "integer"}}) for name in NAMES]
NUMBERS = read_tools(TOOLS)
TEXTS = read_tools([tool(name, {"count": {"type": "string"}}) for name in NAMES])
BAD = tool("bad", {"a": {"type": "string", "minLength": 3, "maxLength": 1}})
SEARCH = ToolSearch(TOOLS)


@cache
def compiler(format: Format) -> Compiler:
    template = ChatTemplate(CHATML, eos_token="<|im_end|>")
    return Compiler(byte_vocabulary(format.atoms), template, tool_format=format)


def takes(turn: CompiledTurn, call: ToolCall, tools: Sequence[Tool]) -> bool:
    """True if the turn may be this call, spelled as one of these tools."""
    text = render(Turn(calls=(call,)), turn.format, tools, turn.state)
    tokens = turn.vocabulary.encode_marked(text, turn.markers)
    assert turn.matcher is not None
    return turn.matcher.fork().count_accepted(tokens) == len(tokens)


def write_search(number: int, name: str) -> list[dict[str, Any]]:
    function = {"name": "search_tools", "arguments": json.dumps({"query": name})}
    call = {"id": f"{number:09}", "type": "function", "function": function}
    result = {"tools": [{"name": name}]}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)},
    ]


@settings(max_examples=30)
@given(
    st.sampled_from(TAUGHT),
    st.permutations(NAMES),
    st.integers(0, len(NAMES)),
)
def test_what_is_found_may_be_called_and_the_prompt_only_grows(
    format: Format, order: list[str], count: int
) -> None:
    """Whatever is found in whatever order: calls of the rest are masked, arguments have their
    types, and the prompt is what it would be without."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    shown = [SEARCH.tool]
    first = compiler(format).compile(Job(messages, shown)).prompt
    start = first.tokens[: first.breakpoints.closed]
    for number, name in enumerate(order[:count]):
        messages += write_search(number, name)
    found = SEARCH.list_found(messages)
    assert [one["function"]["name"] for one in found] == order[:count]
    turn = compiler(format).compile(Job(messages, shown, hidden_tools=found))
    assert turn.prompt.tokens == compiler(format).compile(Job(messages, shown)).prompt.tokens
    assert start
    assert turn.prompt.tokens[: len(start)] == start
    for name in NAMES:
        is_found = name in order[:count]
        assert takes(turn, ToolCall(name, {"count": 12}), NUMBERS) is is_found
        assert not takes(turn, ToolCall(name, {"count": "twelve"}), TEXTS)


def test_a_call_of_a_hidden_tool() -> None:
    text = hermes_call("clock", '{"count": 3}')
    reply = scripted(text).call("Go.", [PING], hidden_tools=TOOLS)
    assert [(call.name, call.arguments) for call in reply.calls] == [("clock", {"count": 3})]
    plain = scripted(text).call("Go.", [PING])
    assert reply.usage.prompt_tokens == plain.usage.prompt_tokens
    (alone,) = scripted(text).call("Go.", hidden_tools=TOOLS).calls
    assert alone.name == "clock"
    assert {call.name for call in plain.calls} == {"ping"}


def test_a_choice_may_name_a_hidden_tool() -> None:
    model = scripted(hermes_call("clock", '{"count": 3}'))
    choice = {"type": "function", "function": {"name": "clock"}}
    reply = model.call("Go.", [PING], hidden_tools=TOOLS, tool_choice=choice)
    assert reply.calls[0].name == "clock"
    with pytest.raises(PolicyError, match="'clock'"):
        model.call("Go.", [PING], tool_choice=choice)


def test_what_is_wrong_with_hidden_tools_is_pointed_to() -> None:
    model = scripted("Hi.")
    with pytest.raises(ToolError, match="two tools are called 'ping'") as two:
        model.call("Go.", [PING], hidden_tools=[TOOLS[0], tool("ping", {"host": {}})])
    assert two.value.where == "/hidden_tools/1"
    with pytest.raises(ToolError) as none:
        model.call("Go.", [PING], hidden_tools=["ping"])
    assert none.value.where == "/hidden_tools/0"
    with pytest.raises(SchemaError) as bad:
        model.call("Go.", [PING], hidden_tools=[BAD], drop_tools=False)
    assert (bad.value.where or "").startswith("/hidden_tools/0/function/parameters")
    reply = model.call("Go.", [PING], hidden_tools=[BAD, TOOLS[0]])
    assert [refusal.name for refusal in reply.refused] == ["bad"]


def test_a_grammar_is_known_by_its_hidden_tools() -> None:
    compiler = Compiler(byte_vocabulary(), ChatTemplate(HERMES))
    messages = [{"role": "user", "content": "Go."}]
    job = Job(messages, [PING], hidden_tools=TOOLS[:2])
    compiler.compile(job)
    assert compiler.knows(job)
    assert not compiler.knows(Job(messages, [PING], hidden_tools=TOOLS[:3]))
    assert not compiler.knows(Job(messages, hidden_tools=TOOLS[:2]))
