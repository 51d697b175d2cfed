"""Strings in a wrapper (MiniCPM5): CDATA around what holds XML's own characters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import RenderError
from grammars.infer.probes import show_call
from grammars.parse.parser import Parser, collect, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Policy, State, Tool, ToolCall, Turn
from grammars.wire.format_text import dump_format, load_format
from grammars.wire.formats import MINICPM5
from tests.agreement.matching import Masked
from tests.real_templates import real_templates
from tests.turn_completer import turn_completer
from tests.turn_strategies import chunkings

LISTED = ["a", "x</param><y", "1\n2", "]]>", "<![CDATA[a]]>"]
TOOL = Tool(
    "f",
    lower(
        {
            "type": "object",
            "properties": {
                "q": {"type": "string"},
                "s": {"type": "string", "maxLength": 3},
                "u": {"type": ["string", "array", "integer"]},
                "w": {"enum": LISTED},
                "n": {"type": "integer"},
                "v": {},
            },
        }
    ),
)
MASKS = {single: Masked(MINICPM5, (TOOL,), Policy(), State(), single) for single in (False, True)}
PARTS = ["<", "&", "\n", "]", "]]>", "<![CDATA[", "</param>", "</function>", '<param name="q">']
TEXTS = st.lists(st.sampled_from([*PARTS, "a", "[1]", "3", " "]), max_size=6).map("".join)
OPEN, CLOSE = '<function name="f"><param name="{}">', "</param></function>"


def write(key: str, value: object) -> str:
    return OPEN.format(key) + str(value) + CLOSE


def read(text: str, *, recover: bool = False) -> list[dict[str, object]]:
    turn = parse(text, MINICPM5, (TOOL,), recover=recover)
    assert not turn.content
    return [dict(call.arguments) for call in turn.calls]


@pytest.mark.parametrize("single", [False, True], ids=["text", "token"])
@settings(max_examples=60)
@given(key=st.sampled_from("qsuv"), value=TEXTS, data=st.data())
def test_what_is_written_is_accepted_and_read_back(
    single: bool, key: str, value: str, data: st.DataObject
) -> None:
    call = ToolCall("f", {key: value, "n": 3})
    try:
        text = render(Turn(calls=(call,)), MINICPM5, (TOOL,))
    except RenderError:  # its own end, or plain text that is no text to such a schema
        return
    assert (f"<![CDATA[{value}]]>" in text) == any(c in value for c in "<&\n")
    assert MASKS[single].accepts(text) == TOOL.schema.admits(call.arguments)
    parser = Parser(MINICPM5, (TOOL,), stream=True)
    events = [event for piece in data.draw(chunkings(text)) for event in parser.feed(piece)]
    (got,) = collect([*events, *parser.close()]).calls
    assert got.arguments == call.arguments


@settings(max_examples=40)
@given(value=TEXTS)
def test_the_template_writes_the_same(value: str) -> None:
    template = real_templates()["openbmb-MiniCPM5-1B"]
    call = ToolCall("f", {"q": value, "n": 3})
    try:
        text = render(Turn(calls=(call,)), MINICPM5)
    except RenderError:
        return
    message = {"role": "assistant", "content": "", "tool_calls": [show_call(call)]}
    assert text in template.render([{"role": "user", "content": "Hi"}, message])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (write("q", "<![CDATA[a</param></function>]]>"), "a</param></function>"),
        (write("q", "<![CDATA[]]>"), ""),
        (write("q", "<![CDATA[plain]]>"), "plain"),
        (write("q", "a < b\n"), "a < b\n"),
        (write("u", "<![CDATA[[1]]]>"), "[1]"),
        (write("u", "[1]"), [1]),
        (write("w", "<![CDATA[x</param><y]]>"), "x</param><y"),
    ],
)
def test_either_spelling_is_accepted_and_read(text: str, value: object) -> None:
    assert all(mask.accepts(text) for mask in MASKS.values())
    ((read_value,),) = [list(arguments.values()) for arguments in read(text)]
    assert read_value == value


@pytest.mark.parametrize("value", ["<![CDATA[abcd]]>", "<![CDATA[ab", "<![CDATA[a]]></param>"])
def test_what_does_not_fit_is_refused(value: str) -> None:
    assert not any(mask.accepts(write("s", value)) for mask in MASKS.values())


def test_white_space_around_the_wrapper_is_let_off_in_recovery() -> None:
    text = write("q", "\n<![CDATA[a\n]]>\n")
    assert read(text, recover=True) == [{"q": "a\n"}]
    assert read(text) == [{"q": "\n<![CDATA[a\n]]>\n"}]


def test_a_wrapped_number_is_a_number_in_recovery() -> None:
    assert read(write("n", "<![CDATA[3]]>"), recover=True) == [{"n": 3}]


@pytest.mark.parametrize("cut", ["<", "<![CDATA[", "<![CDATA[a]", "<![CDATA[a]]></param>"])
def test_a_cut_wrapper_is_closed(cut: str) -> None:
    begun = OPEN.format("q") + cut
    ending = turn_completer(MINICPM5, (TOOL,), Policy(), State()).complete(begun)
    assert ending is not None
    assert MASKS[False].accepts(begun + ending)
    assert len(read(begun + ending)) == 1


def test_the_wrapper_is_data() -> None:
    assert load_format(dump_format(MINICPM5)) == MINICPM5
