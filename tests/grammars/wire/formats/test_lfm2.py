"""Calls in Python (LFM2.5): raw strings that hold their own quote, and what ends them."""

from typing import Any

import pytest

from grammars.errors import RenderError, SchemaError, ToolError
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import ArgumentsDelta, Policy, State, Tool, ToolCall, Turn
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format_text import dump_format, load_format
from grammars.wire.formats import LFM2
from tests.agreement.matching import Masked
from tests.turn_completer import turn_completer

START, END = "<|tool_call_start|>[", "]<|tool_call_end|>"
TEXT = {"type": "string"}
TOOL = Tool(
    "f",
    lower(
        {
            "type": "object",
            "properties": {
                "q": TEXT,
                "n": {"type": ["integer", "string"]},
                "o": {"type": ["object", "array"]},
                "w": {"enum": ["a", "it's", None, 3]},
                "s": {"type": ["string", "null"], "pattern": "^[a-z']{2,}$"},
                "b": {"type": "boolean"},
            },
        }
    ),
)
OTHER = Tool("g", lower({"type": "object", "properties": {"x": TEXT}, "required": ["x"]}))
OPEN = Tool("h", lower({"type": "object", "additionalProperties": TEXT}))
TOOLS = (TOOL, OTHER, OPEN)
MODES = pytest.mark.parametrize("single", [False, True], ids=["text", "token"])


def mask(single: bool = False, policy: Policy | None = None) -> Masked:
    return Masked(LFM2, TOOLS, policy or Policy(), State(), single)


def read(calls: str) -> list[dict[str, Any]]:
    turn = parse(START + calls + END, LFM2, TOOLS)
    assert all(call.valid for call in turn.calls), turn
    return [call.arguments for call in turn.calls]


@MODES
@pytest.mark.parametrize(
    ("calls", "arguments"),
    [
        ("f()", [{}]),
        ("f(q='I'd like to', n=3)", [{"q": "I'd like to", "n": 3}]),
        ("f(q='')", [{"q": ""}]),
        ("f(q=''', b=True)", [{"q": "'", "b": True}]),
        ("f(q='print('a'), z('b', z=1)')", [{"q": "print('a'), z('b', z=1)"}]),
        ("f(q='x)]'), f(q=', b=')", [{"q": "x)]"}, {"q": ", b="}]),
        ("f(q='y = [f('a')]')", [{"q": "y = [f('a')]"}]),
        ('f(q="say \\"it\'s\\"\\n", b=true)', [{"q": 'say "it\'s"\n', "b": True}]),
        ("f(n='3'), g(x='3')", [{"n": "3"}, {"x": "3"}]),
        ("f(o={\"k\": [1, 'a', None]})", [{"o": {"k": [1, "a", None]}}]),
        ("f(o=['it\\'s', \"it's\", true])", [{"o": ["it's", "it's", True]}]),
        ("f(w='it's'), f(w=None), f(w=3)", [{"w": "it's"}, {"w": None}, {"w": 3}]),
        ("f(s='it's'), f(s=None), f(s=null)", [{"s": "it's"}, {"s": None}, {"s": None}]),
        ("h(a='1', b='it's', $c='')", [{"a": "1", "b": "it's", "$c": ""}]),
    ],
)
def test_calls_are_held_and_read(calls: str, arguments: Any, single: bool) -> None:
    grammar = mask(single)
    assert grammar.accepts(START + calls + END), grammar.prefix(START + calls + END)
    assert read(calls) == arguments


@MODES
@pytest.mark.parametrize(
    "calls",
    [
        "f(q=3)",
        "f(n=3.5)",
        "f(b='True')",
        "f(w='b')",
        "f(s='A')",
        "f(q='x', q='x')",
        "g()",
        "z()",
        "f(q='x', )",
        "h(a=1)",
    ],
)
def test_other_calls_are_not_held(calls: str, single: bool) -> None:
    assert not mask(single).accepts(START + calls + END)


def test_one_call_where_no_more_are_allowed() -> None:
    one = mask(policy=Policy(parallel=False))
    assert one.accepts(f"{START}f(q='x'){END}")
    assert not one.accepts(f"{START}f(q='x'), f(q='x'){END}")
    assert not one.accepts(f"{START}f(q='x'), g(x='x'){END}")


def test_it_is_written_as_the_template_writes_it() -> None:
    arguments = {"q": "it's", "o": {"k": "é'", "t": True}, "b": True}
    calls = (ToolCall("f", arguments), ToolCall("f", {"o": ["it's", True, None, {"a": 1}]}))
    assert render(Turn(calls=calls), LFM2, TOOLS) == (
        f'{START}f(q=\'it\'s\', o={{"k": "é\'", "t": true}}, b=True), '
        f"f(o=[\"it's\", True, None, {{'a': 1}}]){END}"
    )


@pytest.mark.parametrize("text", ["', b=", "'), g(", f"'){END}"])
def test_a_string_that_holds_its_end_is_refused(text: str) -> None:
    with pytest.raises(RenderError) as info:
        render(Turn(calls=(ToolCall("f", {"q": f"a{text}b"}),)), LFM2, TOOLS)
    assert info.value.where == "/calls/0/arguments/q"
    whole = f"{START}f(q='a{text}b'){END}"
    assert not mask().accepts(whole)
    assert not mask(single=True).accepts(whole)


def test_between_double_quotes_every_string_can_be_written() -> None:
    calls = 'f(q="a\', b=", b=False)'
    assert mask().accepts(START + calls + END)
    assert read(calls) == [{"q": "a', b=", "b": False}]


def test_keys_and_names_that_cannot_be_written_are_refused() -> None:
    tool = Tool("f", lower({"type": "object", "properties": {"two words": TEXT}}))
    with pytest.raises(SchemaError) as info:
        build_grammar(LFM2, [tool])
    assert info.value.where == "/properties/two words"
    with pytest.raises(RenderError):
        render(Turn(calls=(ToolCall("f", {"two words": 1}),)), LFM2)
    with pytest.raises(ToolError):
        build_grammar(LFM2, [Tool("f(x", lower({"type": "object"}))])


def test_strings_are_told_while_they_are_written() -> None:
    parser = Parser(LFM2, TOOLS, stream=True)
    told = ""
    for piece in (f"{START}f(q='I'd", " li", "ke', ", "b", "=True", f"){END}"):
        events = parser.feed(piece)
        told += "".join(e.text for e in events if isinstance(e, ArgumentsDelta))
        if piece == " li":
            assert told == '{"q": "I\'d li'
    assert told == '{"q": "I\'d like", "b": true}'


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("f(q='it", "')]<|tool_call_end|>"),
        ("f(q='it'", ")]<|tool_call_end|>"),
        ("f(q='it', ", "')]<|tool_call_end|>"),  # as a part of the string
        ("f(q='it', z", "')]<|tool_call_end|>"),
        ("f(q='it')", "]<|tool_call_end|>"),
        ("f(q='it')]<|tool", "_call_end|>"),
        ("f(q='it'), ", "')]<|tool_call_end|>"),
        ("f(q='it'), g(", "x='')]<|tool_call_end|>"),
        ("f(s='i'", "')]<|tool_call_end|>"),
        ("f(s='i", "a')]<|tool_call_end|>"),
        ('f(q="it\\', '\\")]<|tool_call_end|>'),
    ],
)
def test_the_shortest_rest(text: str, rest: str) -> None:
    found = turn_completer(LFM2, TOOLS, Policy(), State()).complete(START + text)
    assert found is not None
    assert mask().accepts(START + text + found)
    assert len(found) == len(rest), found


def test_unknown_tools_are_read_by_the_form_of_keys_and_names() -> None:
    turn = parse(f"{START}u(a='it's', b='x'), v.w(c=1){END}", LFM2)
    assert [(c.name, c.arguments) for c in turn.calls] == [
        ("u", {"a": "it's", "b": "x"}),
        ("v.w", {"c": 1}),
    ]


def test_what_is_no_call_is_text() -> None:
    for text in (f"{START}f(q=f(1)){END}", f"{START}f(q{END}", f"{START}1 + 2{END}"):
        turn = parse(text, LFM2, TOOLS)
        assert not turn.calls
        assert turn.content + turn.unfinished == text


def test_the_format_as_text() -> None:
    assert load_format(dump_format(LFM2)) == LFM2
