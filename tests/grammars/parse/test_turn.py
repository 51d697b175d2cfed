"""Turn -> text, and what is refused because it would be read as something else."""

from typing import Any

import pytest

from grammars.errors import RenderError, ToolError
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Start, State, Tool, ToolCall, Turn
from grammars.wire.format import Format, Literal, Marker
from grammars.wire.formats import HERMES, LLAMA3_JSON, QWEN3_CODER

OPEN, CLOSED = State(Start.OPEN, "\n"), State(Start.CLOSED, "\n\n")
TOOL = Tool("f", lower({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}))


def call(**arguments: Any) -> Turn:
    return Turn(calls=(ToolCall("f", arguments),))


def test_a_turn_is_written_as_the_templates_write_it() -> None:
    turn = Turn("Hi", "Hm", (ToolCall("f", {"a": 1, "b": [True, None]}), ToolCall("g", {})))
    head = "<think>\nHm\n</think>\n\nHi\n"
    assert render(turn, HERMES) == head + (
        '<tool_call>\n{"name": "f", "arguments": {"a": 1, "b": [true, null]}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
    )
    assert render(turn, QWEN3_CODER) == head + (
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n[true, null]\n"
        "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n"
        "</tool_call>"
    )
    scalars = call(t=True, f=False, n=None, s="x")
    for word in ("\nTrue\n", "\nFalse\n", "\nNone\n", "\nx\n"):
        assert word in render(scalars, QWEN3_CODER)


@pytest.mark.parametrize("format", [HERMES, QWEN3_CODER], ids=lambda f: f.name)
def test_a_block_that_the_prompt_has_opened_is_not_opened_again(format: Format) -> None:
    assert render(Turn("a", "b"), format, (), OPEN) == "\nb\n</think>\n\na"
    assert render(Turn("a"), format, (), OPEN) == "\n\n</think>\n\na"
    assert render(Turn("a"), format, (), CLOSED) == "\n\na"
    assert render(Turn("a"), format) == "a"


@pytest.mark.parametrize(
    ("turn", "format", "state", "where"),
    [
        (Turn("a", "b"), HERMES, CLOSED, "/reasoning"),
        (Turn("a", "b"), Format("plain", (Marker("<a>"), Literal("b"))), None, "/reasoning"),
        (Turn("a <think> b"), HERMES, None, "/content"),
        (Turn("", "a </tool_call> b"), HERMES, None, "/reasoning"),
        (Turn("<function=f>"), QWEN3_CODER, None, "/content"),
        (Turn(' { "name" '), LLAMA3_JSON, None, "/content"),
        (Turn("a", calls=(ToolCall("f", {}),)), LLAMA3_JSON, None, "/content"),
        (Turn(calls=(ToolCall("f", {}),) * 2), LLAMA3_JSON, None, "/calls/1"),
        (Turn(" \n", calls=(ToolCall("f", {}),)), HERMES, None, "/content"),
        (call(a=float("nan")), HERMES, None, "/calls/0/arguments"),
        (call(a="\ud800"), QWEN3_CODER, None, "/calls/0/arguments"),
        (call(**{" a": 1}), QWEN3_CODER, None, "/calls/0/arguments/ a"),
        (call(**{"": 1}), QWEN3_CODER, None, "/calls/0/arguments/"),
        (call(**{"a/>": 1}), QWEN3_CODER, None, "/calls/0/arguments/a~1>"),
        (call(**{"a" * 257: 1}), QWEN3_CODER, None, "/calls/0/arguments/" + "a" * 257),
        (call(a="x\n</parameter>\n<b"), QWEN3_CODER, None, "/calls/0/arguments/a"),
        (call(a="</parameter>\n<b"), QWEN3_CODER, None, "/calls/0/arguments/a"),
        (call(a="null"), QWEN3_CODER, None, "/calls/0/arguments/a"),
        (call(a=1), QWEN3_CODER, None, "/calls/0/arguments/a"),
        (call(b=1), QWEN3_CODER, None, "/calls/0/arguments/b"),
    ],
)
def test_what_would_be_read_differently_is_refused(
    turn: Turn, format: Format, state: State | None, where: str
) -> None:
    with pytest.raises(RenderError) as info:
        render(turn, format, [TOOL], state)
    assert info.value.where == where


def test_a_closing_tag_alone_is_text() -> None:
    turn = call(a="<b></parameter>\n </parameter> </function>")
    assert parse(render(turn, QWEN3_CODER, [TOOL]), QWEN3_CODER, [TOOL]) == turn


@pytest.mark.parametrize("name", ["", "a b", "a>", " a", "a\n", '"', "a" * 300])
def test_a_name_that_cannot_be_written_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="cannot write the name"):
        render(Turn(calls=(ToolCall(name, {}),)), QWEN3_CODER)
    assert parse(render(Turn(calls=(ToolCall(name, {}),)), HERMES), HERMES).calls[0].name == name
