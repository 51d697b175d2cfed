"""Nested tags (MiniMax-M3): objects and lists as tags in tags, text that cannot hold their mark."""

import json
from typing import Any

import pytest

from grammars.errors import RenderError, SchemaError
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import ArgumentsDelta, Policy, Start, State, Think, Tool, ToolCall, Turn
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format_text import dump_format, load_format
from grammars.wire.formats import MINIMAX_M3
from tests.agreement.matching import Masked
from tests.turn_completer import turn_completer

MARK = "]<]minimax[>["
HEAD = f'{MARK}<tool_call>\n{MARK}<invoke name="f">'
TAIL = f"{MARK}</invoke>\n{MARK}</tool_call>"
TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
TREE = {
    "type": "object",
    "properties": {"v": TEXT, "next": {"$ref": "#/$defs/T"}},
    "required": ["v"],
}
TOOL = Tool(
    "f",
    lower(
        {
            "type": "object",
            "$defs": {"T": TREE},
            "properties": {
                "s": TEXT,
                "n": {"type": ["integer", "null"]},
                "u": {"type": ["integer", "string"]},
                "l": {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 2},
                "o": {
                    "type": "object",
                    "properties": {"a": TEXT, "b": {"type": "boolean"}},
                    "required": ["a"],
                },
                "any": {"type": "object"},
                "t": {"$ref": "#/$defs/T"},
                "e": {"enum": ["x", 3, {"k": [1]}]},
                "p": {"type": "string", "pattern": "^[a-z]{2,}$"},
                "w": {"type": ["string", "array"], "minLength": 1, "items": TEXT},
            },
        }
    ),
)
MODES = pytest.mark.parametrize("single", [False, True], ids=["text", "token"])


def nest(text: str) -> str:
    """A call in which `<` stands for a tag."""
    return HEAD + text.replace("<", f"{MARK}<") + TAIL


def mask(single: bool = False, policy: Policy | None = None, state: State | None = None) -> Masked:
    return Masked(MINIMAX_M3, [TOOL], policy or Policy(), state or State(), single)


@MODES
@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ('<s>it\'s "raw"\n &lt;</s>', {"s": 'it\'s "raw"\n &lt;'}),
        ("<s></s><n>3</n>", {"s": "", "n": 3}),
        ("<n>null</n>", {"n": None}),
        ("<u>3</u>", {"u": 3}),
        ("<u>x</u>", {"u": "x"}),
        ("<l><item>1</item><item>-2</item></l>", {"l": [1, -2]}),
        ("<o><a>x</a><b>true</b></o>", {"o": {"a": "x", "b": True}}),
        ("<any></any>", {"any": {}}),
        ("<any><k><item>1</item><item>x</item></k></any>", {"any": {"k": [1, "x"]}}),
        ("<any><k><m>true</m></k><z></z></any>", {"any": {"k": {"m": True}, "z": ""}}),
        ("<t><v>1</v><next><v>2</v></next></t>", {"t": {"v": "1", "next": {"v": "2"}}}),
        ("<e>x</e>", {"e": "x"}),
        ("<e><k><item>1</item></k></e>", {"e": {"k": [1]}}),
        ("<w>ab</w>", {"w": "ab"}),
        ("<w><item>a</item></w>", {"w": ["a"]}),
        ("<w></w>", {"w": []}),
    ],
)
def test_calls_are_held_and_read(text: str, arguments: Any, single: bool) -> None:
    grammar = mask(single)
    assert grammar.accepts(nest(text)), grammar.prefix(nest(text))
    (call,) = parse(nest(text), MINIMAX_M3, [TOOL]).calls
    assert call.valid, call
    assert call.arguments == arguments


@MODES
@pytest.mark.parametrize(
    "text",
    [
        "<n>3.5</n>",
        "<n>x</n>",
        "<l></l>",
        "<l><item>1</item><item>1</item><item>1</item></l>",
        "<o><b>true</b></o>",
        "<o><a>x</a><z>x</z></o>",
        "<e>y</e>",
        "<p>a</p>",
        "<zz>1</zz>",
        "<n>3</n><n>3</n>",
        "<s>a<b></b></s>",
        "<s>x</n>",
        "<w>a<item>a</item></w>",
    ],
)
def test_other_calls_are_not_held(text: str, single: bool) -> None:
    assert not mask(single).accepts(nest(text))


def test_it_is_written_as_the_template_writes_it() -> None:
    arguments = {"s": "a", "n": 3, "l": [1], "o": {"a": "x", "b": True}, "any": {}}
    text = "<s>a</s><n>3</n><l><item>1</item></l><o><a>x</a><b>true</b></o><any></any>"
    written = render(Turn(calls=(ToolCall("f", arguments),)), MINIMAX_M3, [TOOL])
    assert written == nest(text)


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"s": f"a{MARK}b"}, "/s"),
        ({"u": "3"}, "/u"),
        ({"any": {"a b": {"<": 1}}}, "/any/a b/<"),
        ({"any": {"k": {}}}, "/any"),
    ],
)
def test_what_would_be_read_otherwise_is_refused(arguments: Any, where: str) -> None:
    with pytest.raises(RenderError) as info:
        render(Turn(calls=(ToolCall("f", arguments),)), MINIMAX_M3, [TOOL])
    assert info.value.where == f"/calls/0/arguments{where}"


def test_keys_that_tags_cannot_carry_are_refused() -> None:
    schema = {"type": "object", "properties": {"o": {"type": "object", "properties": {"<": TEXT}}}}
    with pytest.raises(SchemaError) as info:
        build_grammar(MINIMAX_M3, [Tool("f", lower(schema))])
    assert info.value.where == "/properties/o/properties/<"


@MODES
def test_a_turn_without_reasoning_may_begin_with_the_closer(single: bool) -> None:
    for text, thought in (
        (f"</mm:think>{nest('')}", ""),
        (f"<mm:think>Hm</mm:think>{nest('')}", "Hm"),
    ):
        assert mask(single).accepts(text)
        turn = parse(text, MINIMAX_M3, [TOOL])
        assert (turn.reasoning, turn.content, len(turn.calls)) == (thought, "", 1)
    never = Policy(think=Think.FORBIDDEN)
    assert mask(single, never).accepts("</mm:think>Hi")
    assert not mask(single, never).accepts("<mm:think>Hm</mm:think>Hi")
    assert not mask(single, Policy(think=Think.REQUIRED)).accepts("</mm:think>Hi")
    assert not mask(single, state=State(Start.OPEN)).accepts("</mm:think></mm:think>Hi")


def test_strings_are_told_while_they_are_written() -> None:
    parser = Parser(MINIMAX_M3, [TOOL], stream=True)
    told = ""
    for piece in (HEAD + MARK, "<s>it", "'s", MARK[:5], MARK[5:] + f"</s>{MARK}<l>{MARK}<item>1",
                  f"{MARK}</item>{MARK}</l>{TAIL}"):  # fmt: skip
        events = parser.feed(piece)
        told += "".join(e.text for e in events if isinstance(e, ArgumentsDelta))
        if piece == "'s":
            assert told == '{"s": "it\'s'
    assert json.loads(told) == {"s": "it's", "l": [1]}


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("", "</i"),
        ("<s>ab", "</s></i"),
        ("<p>a", "a</p></i"),
        ("<l>", "<item>0</item></l></i"),
        ("<l><item>1", "</item></l></i"),
        ("<o>", "<a></a></o></i"),
        ("<any><ke", "></a></any></i"),  # no grammar compares it with the opening tag
        ("<t><v>1</v>", "</t></i"),
        ("<e><k>", "<item>1</item></k></e></i"),
        ("<w><item>", "</item></w></i"),
    ],
)
def test_the_shortest_rest(text: str, rest: str) -> None:
    begun = HEAD + text.replace("<", f"{MARK}<")
    whole = rest.removesuffix("</i").replace("<", f"{MARK}<") + TAIL
    completer = turn_completer(MINIMAX_M3, [TOOL], Policy(), State())
    assert completer.complete(begun) == whole
    assert mask().accepts(begun + whole)
    for cut in range(len(begun), len(begun + whole)):
        assert completer.complete((begun + whole)[:cut]) is not None


def test_calls_of_unknown_tools_are_read() -> None:
    (call,) = parse(nest("<a>1</a><b><item>x</item></b><c><d>y</d></c>"), MINIMAX_M3).calls
    assert call.arguments == {"a": 1, "b": ["x"], "c": {"d": "y"}}


def test_what_is_nested_too_deeply_is_an_invalid_call() -> None:
    deep = nest("<any>" + "<k>" * 200 + "</k>" * 200 + "</any>")
    (call,) = parse(deep, MINIMAX_M3, [TOOL]).calls
    assert not call.valid


def test_the_format_as_text() -> None:
    assert load_format(dump_format(MINIMAX_M3)) == MINIMAX_M3


def test_cut_arguments_of_the_history_are_written_as_they_are() -> None:
    cut: Any = '{"s": "Par'
    assert render(Turn(calls=(ToolCall("f", cut),)), MINIMAX_M3) == nest(cut)
