"""A real llama-server writes any given text, and its own parser reads it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.field.llama_server import LlamaServerParser, UnwritableError
from grammars.wire.formats import HERMES

pytestmark = pytest.mark.remote

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é <tool_call>"}}\n</tool_call>'


@pytest.fixture(scope="module")
def parser() -> LlamaServerParser:
    """The parser that it makes for Hermes."""
    parser = LlamaServerParser("hermes")
    assert "stream" in parser.greet(HERMES.markers)
    return parser


@settings(max_examples=20)
@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1))
def test_it_writes_any_text(parser: LlamaServerParser, text: str):
    assert parser.read([], text)["content"] == text
    deltas = list(parser.stream([], [text]))
    assert "".join(delta["content"] or "" for delta in deltas) == text


def test_its_parser_reads_the_call(parser: LlamaServerParser):
    [call] = parser.read([TOOL], CALL)["calls"]
    assert (call["name"], call["arguments"]) == ("f", '{"a": "é <tool_call>"}')
    streamed = "".join(
        call["arguments"] for delta in parser.stream([TOOL], [CALL]) for call in delta["calls"]
    )
    assert streamed == call["arguments"]


def test_what_its_grammar_refuses_cannot_be_written(parser: LlamaServerParser):
    with pytest.raises(UnwritableError):
        parser.read([TOOL], CALL.replace('"f"', '"g"'))
