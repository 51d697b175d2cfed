"""Calls inside a reasoning block, in recovery: those that the model means, and those that it only
thinks about. And the block as content, where that is asked for."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grammars.errors import RenderError
from grammars.parse.parser import Parser, collect, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Event, Start, State, Tool, ToolCall, Turn
from grammars.wire.format import Content, Format
from grammars.wire.formats import FORMATS, SOLAR
from tests.text_strategies import TEXTS
from tests.turn_strategies import chunkings

OPEN = State(Start.OPEN)
TOOLS = (
    Tool(
        "write",
        lower({"properties": {"text": {"type": "string"}}, "required": ["text"]}),
    ),
)
# Where each part of a turn is a message of its own, nothing but its end closes one.
BLOCKS = [f for f in FORMATS if f.reasoning and f.headers is None and f.bare is None]
EACH = pytest.mark.parametrize("format", BLOCKS, ids=lambda f: f.name)


def write_call(format: Format, text: str) -> str:
    """A call with this argument; texts that the format cannot write are let off, and those that
    recovery reads otherwise: it takes end tags without the white space that belongs to them."""
    block = format.reasoning
    assert block is not None
    assume(block.closer.text not in text)
    try:
        call = render(Turn(calls=(ToolCall("write", {"text": text}),)), format, TOOLS)
    except RenderError:
        assume(False)
        raise
    assume([one.arguments for one in read(format, call, State()).calls] == [{"text": text}])
    return call


def read(format: Format, text: str, state: State = OPEN, *, inline: bool = False) -> Turn:
    return parse(text, format, TOOLS, state, recover=True, inline=inline)


@EACH
@settings(max_examples=10)
@given(text=TEXTS)
def test_what_stands_in_front_of_the_closer_was_thought(format: Format, text: str) -> None:
    call = write_call(format, text)
    block = format.reasoning
    assert block is not None
    content = format.contents[0]
    answer = content.opener + "So." + content.closer
    thought = read(format, f"a {call} b{block.foot}{block.next_opener}{answer}")
    assert thought == Turn("So.", f"a {call} b")
    again = read(format, f"a {call} b{block.foot}{block.next_opener}{call}")
    assert again.reasoning == f"a {call} b"
    assert [c.arguments for c in again.calls] == [{"text": text}]


@EACH
@settings(max_examples=10)
@given(text=TEXTS)
def test_a_block_that_is_never_closed_ends_with_the_call(format: Format, text: str) -> None:
    call = write_call(format, text)
    block = format.reasoning
    assert block is not None
    for closer in ("", block.foot + block.next_opener):  # nothing follows it
        turn = read(format, f"a{call}{closer}")
        assert (turn.reasoning, turn.content) == ("a", "")
        assert [c.arguments for c in turn.calls] == [{"text": text}]


@EACH
@settings(max_examples=15)
@given(data=st.data())
def test_every_cut_reads_the_same(format: Format, data: st.DataObject) -> None:
    block = format.reasoning
    assert block is not None
    call = write_call(format, data.draw(TEXTS))
    parts = st.sampled_from(["a", " ", "\n", call, block.closer.text, block.opener.text])
    text = "".join(data.draw(st.lists(parts, max_size=6)))
    inline = data.draw(st.booleans())
    parser = Parser(format, TOOLS, OPEN, recover=True, inline=inline)
    events: list[Event] = []
    for piece in data.draw(chunkings(text)):
        events += parser.feed(piece)
    assert collect([*events, *parser.close()]) == read(format, text, inline=inline)


@EACH
@settings(max_examples=15)
@given(data=st.data(), is_closed=st.booleans())
def test_a_block_is_content_where_that_is_asked_for(
    format: Format, data: st.DataObject, is_closed: bool
) -> None:
    """The tags stand in it as they are written; that of the prompt, as the template writes it."""
    block = format.reasoning
    assert block is not None
    call = write_call(format, data.draw(TEXTS))
    body = f"hm{block.foot}{block.next_opener}" if is_closed else "hm"
    text = body + call
    for state, head in ((OPEN, ""), (State(), block.head)):
        apart = read(format, head + text, state)
        together = read(format, head + text, state, inline=True)
        assert together.calls == apart.calls
        assert together.reasoning == ""
        foot = block.foot if is_closed else ""
        assert together.content == f"{block.head}hm{foot}"


ANSWERED = [format for format in BLOCKS if format.tagged_openers]


@pytest.mark.parametrize("format", ANSWERED, ids=lambda f: f.name)
def test_a_block_that_is_never_closed_ends_where_the_answer_opens(format: Format) -> None:
    content = format.contents[0]
    answer = content.opener + "So." + content.closer
    assert read(format, f"a{answer}") == Turn("So.", "a")
    call = render(Turn(calls=(ToolCall("write", {"text": "x"}),)), format, TOOLS)
    turn = read(format, f"a{call}{answer}")  # the call was not only thought of
    assert (turn.content, turn.reasoning) == ("So.", "a")
    assert [c.arguments for c in turn.calls] == [{"text": "x"}]


def test_an_opener_without_a_tag_may_stand_in_a_thought() -> None:
    worded = replace(SOLAR, contents=(Content("Answer: "),))
    assert read(worded, "a. Answer: b") == Turn("", "a. Answer: b")
