"""The parsers of which the mutants are made read what the renderer writes, wherever it is cut, and
what our parser reads in texts that a model may write as well."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from grammars.parse import parse
from grammars.parse.render import render
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.turn import Tool, Turn
from grammars.wire.format import Format
from grammars.wire.formats import HERMES, MISTRAL, MISTRAL_NEMO, QWEN3_CODER
from tests.suite_mutants.hermes_parsers import HermesStream, HermesText
from tests.suite_mutants.mistral_parsers import MistralStream, NemoText
from tests.suite_mutants.qwen_parser import QwenText
from tests.suite_mutants.readings import MakeParser, Summary, summarize
from tests.templates import hermes_call
from tests.turn_strategies import Case, cases, chunkings

BASES = [
    (HermesText, HERMES),
    (HermesStream, HERMES),
    (QwenText, QWEN3_CODER),
    (NemoText, MISTRAL_NEMO),
    (MistralStream, MISTRAL),
]
PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}
TOOLS = [Tool("f", lower(PARAMETERS))]
CALL = hermes_call("f", '{"a": "</tool_call>"}')
LIST = '[TOOL_CALLS][{"name": "f", "arguments": {"a": "]"}, "id": "abcdefghi"}]'
XML = "<tool_call>\n<function=f>\n<parameter=a>\n007\n</parameter>\n</function>\n</tool_call>"
MARKED = '[TOOL_CALLS]f[ARGS]{"a": "}\\""}'
HERMES_TEXTS = [
    f"Hi\n\n{CALL}\nBye\n{CALL}\nEnd\n",
    f"{CALL}\n\n{CALL} Bye",
    f"<think>\n{CALL}\n</think>\n\n\n{CALL}",
    "<think>\n\na\n\n</think>\n\n\nx",
    "<think>a",
    "ab</think>\n\nHi",
    "\n\nHi\n\n",
    "Hi\n<tool_call>\n{oops}\n</tool_call> End",
    f"Hi\n{CALL[:-14]}",
    "a <tool",
    hermes_call(" g "),
    '<tool_call>{"arguments":{},"name":"f"}</tool_call>',
]
QWEN_TEXTS = [
    f"Hi\n{XML}\nBye\n{XML}",
    f"<think>\n{XML}\n</think>\n\n{XML}",
    XML.replace("007", "x\n</parameter>\ny</tool_call>"),
    XML.replace("=a", "=n").replace("007", " 5 "),
    XML.replace("</function>", "oops"),
    XML[:-3],
]
A_TEXT = {"type": "object", "properties": {"a": {"type": "string"}}}
UNIONS = [
    [{"type": "object", "properties": {}}, A_TEXT],
    [A_TEXT, {"type": "object", "properties": {"b": {"type": "integer"}}}],
    [A_TEXT, {"type": "object", "properties": {"a": {"type": "integer"}}}],
    [A_TEXT, {"type": "object", "additionalProperties": {"type": "integer"}}],
    [{"type": "object", "additionalProperties": {"type": "integer"}}, A_TEXT],
    [A_TEXT | {"required": ["a", "n"]}, {"type": "object", "properties": {"a": {}}}],
    [{"type": "object", "allOf": [A_TEXT, {"required": ["a"]}]}, {"type": "object"}],
]
NEMO_TEXTS = [f"Hi\n{LIST} Bye", f" {LIST}\n{LIST}", "Hi [TOOL_CALLS]x", "Hi [TOOL_CALLS][]"]
MISTRAL_TEXTS = [
    f"Hi\n{MARKED} Bye{MARKED} End",
    f" {MARKED}\n{MARKED}\n",
    f"[THINK]\n{MARKED}\n[/THINK]\n\n{MARKED}",
    "[THINK]a[/THINK]\nb",
    "[THINK]a",
    "x [TOOL_CALLS]f {} [ARGS]",
]
TEXTS = [
    *[(HermesText, HERMES, text) for text in HERMES_TEXTS],
    *[(HermesStream, HERMES, text) for text in HERMES_TEXTS],
    *[(QwenText, QWEN3_CODER, text) for text in QWEN_TEXTS],
    *[(NemoText, MISTRAL_NEMO, text) for text in NEMO_TEXTS],
    *[(MistralStream, MISTRAL, text) for text in MISTRAL_TEXTS],
]


def summarize_turn(turn: Turn) -> Summary:
    """A turn that our parser has read. The text of a call that was cut off is content."""
    calls = [(call.name, json.dumps(call.arguments, ensure_ascii=False)) for call in turn.calls]
    return Summary(turn.content + turn.unfinished, turn.reasoning, tuple(calls))


@pytest.mark.parametrize(("make", "format"), BASES, ids=lambda part: getattr(part, "__name__", ""))
@given(data=st.data())
def test_a_base_reads_what_is_written(make: MakeParser, format: Format, data: DataObject):
    case: Case = data.draw(cases(format))
    text = render(case.turn, format, case.tools)
    found = summarize(make, case.tools, data.draw(chunkings(text)))
    assert replace(found, order="") == summarize_turn(case.turn)


@pytest.mark.parametrize(("make", "format", "text"), TEXTS)
@given(data=st.data())
def test_a_base_reads_as_our_parser(make: MakeParser, format: Format, text: str, data: DataObject):
    found = summarize(make, TOOLS, data.draw(chunkings(text)))
    assert replace(found, order="") == summarize_turn(parse(text, format, TOOLS))


@pytest.mark.parametrize("branches", UNIONS)
@pytest.mark.parametrize("written", ["0", "null", "[1]", "x"])
def test_alternatives_are_read_as_our_parser_reads_them(branches: list[Json], written: str):
    tools = [Tool("f", lower({"anyOf": branches}))]
    text = XML.replace("007", written)
    found = summarize(QwenText, tools, [text])
    assert replace(found, order="") == summarize_turn(parse(text, QWEN3_CODER, tools))
