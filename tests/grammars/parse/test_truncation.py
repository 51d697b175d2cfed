"""Wherever the tokens run out, what was read can go back into the history."""

from functools import partial

import pytest

from benchmarks import totality
from constrained.prompt.tools.shapes import read_tools
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.suite.run import assert_parser, settings
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS

NOTE = {"note": {"type": "string"}, "city": {"type": "string"}}
DAYS = {"days": {"type": "integer"}, "unit": {"type": ["string", "null"]}}
TOOLS = read_tools(
    [
        {"name": "write", "input_schema": {"type": "object", "properties": NOTE}},
        {"name": "set", "input_schema": {"type": "object", "properties": DAYS}},
    ]
)
FEW = settings(max_examples=15, database=None)
CALLS = (
    ToolCall("write", {"note": 'a "b"\n</c> {1}', "city": "Zürich"}, id="abcdefgh0"),
    ToolCall("set", {"days": 3, "unit": None}, id="abcdefgh1"),
)


def write(format: Format) -> tuple[Turn, str]:
    """A turn with all that the format can write."""
    reasoning = "I think <b>." if format.reasoning else ""
    beside = format.bare is None and any(c.calls for c in format.contents)
    turn = Turn("So:" if beside else "", reasoning, CALLS[: 1 if format.single else 2])
    return turn, render(turn, format, TOOLS)


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_a_cut_turn_can_be_replayed(format: Format) -> None:
    _, text = write(format)
    for at in range(len(text) + 1):
        cut = parse(text[:at], format, TOOLS)
        kept = Turn(cut.content.strip(), cut.reasoning, cut.calls)
        again = parse(render(kept, format, TOOLS), format, TOOLS)
        assert (again.content, again.reasoning) == (kept.content, kept.reasoning)
        assert [c.arguments for c in again.calls] == [c.arguments for c in kept.calls]


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_the_whole_turn_is_read(format: Format) -> None:
    turn, text = write(format)
    assert len(parse(text, format, TOOLS).calls) == len(turn.calls)


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_nothing_of_random_bytes_and_tags_is_lost(format: Format) -> None:
    for recover in (False, True):
        parser = partial(Parser, format, recover=recover)
        assert_parser(parser, format, checks=[totality.loses_nothing], settings=FEW)
