"""Formats that write several calls in another way than one."""

import pytest

from constrained.prompt.tools import read_tools
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.turn import CallCut, CallRead, Choice, Policy, ToolCall, Turn, collect
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format, JsonArguments, JsonCall, Literal, Marker, Name, Several
from tests.templates import PAINT, PING

LIST = Format(
    "list",
    (JsonCall(),),
    opening=(Marker("<calls>"),),
    closing=(Marker("</calls>"),),
    several=Several(
        (Marker("<calls>"), Literal("[")), (Literal("]"), Marker("</calls>")), between=", "
    ),
)
TAG = Format(
    "tag",
    (Marker("<call>"), Name(), Literal("\n"), JsonArguments(), Marker("</call>")),
    several=Several((Marker("<all>"), Literal("\n")), (Marker("</all>"),), between="\n"),
)
TOOLS = read_tools([PING, PAINT])
ONE = (ToolCall("paint", {"color": "red", "glossy": True}),)
TWO = (*ONE, ToolCall("ping", {}))
WRITTEN = {
    "list": (
        '<calls>{"name": "paint", "arguments": {"color": "red", "glossy": true}}</calls>',
        '<calls>[{"name": "paint", "arguments": {"color": "red", "glossy": true}}, '
        '{"name": "ping", "arguments": {}}]</calls>',
    ),
    "tag": (
        '<call>paint\n{"color": "red", "glossy": true}</call>',
        '<all>\n<call>paint\n{"color": "red", "glossy": true}</call>\n<call>ping\n{}</call></all>',
    ),
}


@pytest.mark.parametrize("format", [LIST, TAG], ids=lambda format: format.name)
@pytest.mark.parametrize("content", ["", "I look."])
def test_one_call_and_two(format: Format, content: str) -> None:
    for calls, text in zip((ONE, TWO), WRITTEN[format.name], strict=True):
        turn = Turn(content, calls=calls)
        assert render(turn, format, TOOLS) == content + text
        read = parse(content + text, format, TOOLS)
        assert (read.content, [c.arguments for c in read.calls], read.unfinished) == (
            content,
            [c.arguments for c in calls],
            "",
        )
        assert Completer(build_turn(format, TOOLS)).complete(content + text) == ""
        for end in range(len(content + "<calls>"), len(content + text)):
            parser = Parser(format, TOOLS, stream=True)
            events = [*parser.feed((content + text)[:end]), *parser.close()]
            assert collect(events).content == content
            assert any(isinstance(event, CallCut | CallRead) for event in events)


@pytest.mark.parametrize("format", [LIST, TAG], ids=lambda format: format.name)
def test_where_one_call_is_allowed_no_list_begins(format: Format) -> None:
    for choice in (Choice.AUTO, Choice.REQUIRED):
        grammar = build_turn(format, TOOLS, Policy(choice, parallel=False))
        one, two = WRITTEN[format.name]
        assert Completer(grammar).complete(one) == ""
        assert Completer(grammar).complete(two) is None
