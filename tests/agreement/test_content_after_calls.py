"""Content after calls: where a format knows it, the grammar, the parser and the renderer agree."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import (
    Choice,
    ChoiceAnswer,
    Policy,
    State,
    Tool,
    ToolCall,
    Turn,
    collect,
)
from grammars.wire.format import Content, ContentPlace, Format
from grammars.wire.formats import FORMATS, GEMMA4, HERMES, LFM2, LLAMA3_JSON
from tests.agreement.matching import Masked
from tests.turn_strategies import chunkings, prose

AFTER = [format for format in FORMATS if format.has_content_after_calls]
EACH = pytest.mark.parametrize("format", AFTER, ids=lambda f: f.name)
TOOLS = (Tool("f", lower({"type": "object", "properties": {"a": {"type": "string"}}})),)
CALL = ToolCall("f", {"a": "x"})


def masked(format: Format, policy: Policy | None = None, *, single: bool = False) -> Masked:
    return Masked(format, TOOLS, policy or Policy(), State(), single)


def write(turn: Turn, format: Format) -> str:
    """The turn with its content after the calls."""
    return render(turn, replace(format, content_places=(ContentPlace.AFTER,)), TOOLS)


def test_the_formats_that_know_content_behind_calls() -> None:
    assert {format.name for format in AFTER} == {"gemma4", "lfm2"}


@EACH
@settings(max_examples=40)
@given(data=st.data())
def test_content_after_calls_is_accepted_and_read_back(format: Format, data: st.DataObject) -> None:
    after = data.draw(prose(format, before_call=True))
    in_front = data.draw(prose(format, before_call=True))
    turn = Turn(after, calls=(CALL,) * data.draw(st.integers(1, 2)))
    text = write(turn, format)
    assert parse(text, format, TOOLS) == turn
    both = in_front + format.before * bool(in_front) + text
    read = parse(both, format, TOOLS)
    assert read == replace(turn, content=in_front + after)
    pieces = data.draw(chunkings(both))
    parser = Parser(format, TOOLS, stream=True)
    events = [event for piece in pieces for event in parser.feed(piece)]
    assert collect([*events, *parser.close()]) == read
    for single in (False, True):
        assert masked(format, single=single).accepts(text)
        assert masked(format, single=single).accepts(both)


@EACH
def test_no_call_follows_content_behind_calls(format: Format) -> None:
    call = render(Turn(calls=(CALL,)), format)
    for single in (False, True):
        grammar = masked(format, single=single)
        assert grammar.accepts(f"{call}It is done. <")
        assert not grammar.accepts(f"{call}It is done.{call}")


@EACH
def test_only_a_turn_that_may_have_content_has_it_behind_calls(format: Format) -> None:
    call = render(Turn(calls=(CALL,)), format)
    for policy in (Policy(Choice.REQUIRED), Policy(answer=ChoiceAnswer(("yes", "no")))):
        assert masked(format, policy).accepts(call)
        assert not masked(format, policy).accepts(call + "Done.")
    assert masked(format, Policy(parallel=False)).accepts(call + "Done.")
    assert not masked(HERMES).accepts(render(Turn(calls=(CALL,)), HERMES) + "Done.")


def test_the_template_s_own_place_is_where_content_is_written() -> None:
    turn = Turn("Done.", calls=(CALL,))
    assert render(turn, GEMMA4) == '<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>Done.'
    assert render(turn, LFM2) == "Done.<|tool_call_start|>[f(a='x')]<|tool_call_end|>"


def test_text_that_ends_as_a_tag_begins_is_content_behind_calls() -> None:
    text = write(Turn(calls=(CALL,)), GEMMA4)
    assert parse(text + "a <|tool", GEMMA4, TOOLS) == Turn("a <|tool", calls=(CALL,))
    cut = parse(render(Turn(calls=(CALL,)), HERMES) + "\n<tool_", HERMES, TOOLS)
    assert (cut.content, cut.unfinished) == ("", "\n<tool_")


@pytest.mark.parametrize(
    ("format", "message"),
    [
        (LLAMA3_JSON, "nothing tells calls from content after"),
        (replace(HERMES, contents=(Content("<a>", "</a>"),)), "nothing tells calls from content"),
    ],
)
def test_content_after_calls_has_to_be_told_from_them(format: Format, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        replace(format, content_places=(ContentPlace.BEFORE, ContentPlace.AFTER))
    with pytest.raises(TypeError, match="no place for content"):
        replace(format, content_places=())
