"""What models really write, read in recovery; and that strict reading refuses it."""

import re

import pytest

from grammars.parse.calls import find_closers
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import ContentDelta, Start, State, Tool, ToolCall, Turn
from grammars.wire.format import Format, TaggedArguments
from grammars.wire.format_text import dump_format, load_format
from grammars.wire.formats import (
    DSML_V4,
    FORMATS,
    GLM45,
    GLM47,
    HERMES,
    LING,
    MINIMAX_M2,
    QWEN3_CODER,
)

TOOLS = [
    Tool(
        "f",
        lower(
            {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}
        ),
    )
]
JSON = '{"name": "f", "arguments": {"a": "x"}}'
TAGS = "<function=f>\n<parameter=a>\nx\n</parameter>\n</function>"
F = ToolCall("f", {"a": "x"})
TAGGED = [format for format in FORMATS if isinstance(format.hole, TaggedArguments)]


@pytest.mark.parametrize(
    ("format", "text", "content"),
    [
        (HERMES, f"<tool_call>{JSON}</tool_call>", ""),
        (HERMES, f"<tool_call>  {JSON}\n\n</tool_call>\n", ""),
        (HERMES, f"Hi <tool_call>\n{JSON}\n</tool_call>", "Hi "),
        (QWEN3_CODER, f"<tool_call>{TAGS}</tool_call>", ""),
        (QWEN3_CODER, f"{TAGS}\n</tool_call>", ""),
        (QWEN3_CODER, f"Hi\n{TAGS}\n</tool_call>", "Hi"),
        (QWEN3_CODER, f"<tool_call>\n<function= f >{TAGS[12:]}\n</tool_call>", ""),
    ],
)
def test_white_space_and_a_missing_opener_matter_to_nobody(
    format: Format, text: str, content: str
) -> None:
    for recover in (False, True):
        assert parse(text, format, TOOLS, recover=recover) == Turn(content, "", (F,))


@pytest.mark.parametrize(
    ("format", "text", "turn"),
    [
        (HERMES, f"<tool_call>\n{JSON}", Turn("", "", (F,))),
        (HERMES, f"<tool_call>\n{JSON} and so on", Turn(" and so on", "", (F,))),
        (HERMES, f" {JSON}\n</tool_call>", Turn("", "", (F,))),
        (HERMES, JSON, Turn("", "", (F,))),
        (HERMES, JSON.replace("arguments", "parameters"), Turn("", "", (F,))),
        (HERMES, JSON.replace('"f"', '"g"'), Turn(JSON.replace('"f"', '"g"'))),
        (HERMES, ' {"a": 1} is JSON', Turn(' {"a": 1} is JSON')),
        (HERMES, '{"a": 1', Turn('{"a": 1')),
        (HERMES, "{'a'", Turn("{'a'")),
        (QWEN3_CODER, JSON, Turn("", "", (F,))),
        (
            HERMES,
            '<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"x\\"}"}</tool_call>',
            Turn("", "", (F,)),
        ),
        (HERMES, '<tool_call>{"name": "f"}</tool_call>', Turn("", "", (ToolCall("f", {}),))),
        (QWEN3_CODER, f"<tool_call>\n{TAGS}", Turn("", "", (F,))),
        (QWEN3_CODER, f"<tool_call>\n{TAGS} and", Turn(" and", "", (F,))),
        (
            QWEN3_CODER,
            "<function=f><parameter=a>x</parameter><parameter=n>1</parameter></function>",
            Turn("", "", (ToolCall("f", {"a": "x", "n": 1}),)),
        ),
        (HERMES, f"<think>so\n<tool_call>\n{JSON}\n</tool_call>", Turn("", "so", (F,))),
        (
            QWEN3_CODER,
            f"<think>so\n{TAGS}\n</tool_call> on\n</think>\n\nHi",
            Turn("Hi", f"so\n{TAGS}\n</tool_call> on"),
        ),
        (HERMES, '<tool_call>\n{"name": "f", "argu', Turn('<tool_call>\n{"name": "f", "argu')),
    ],
)
def test_variants_are_recovered_and_only_then(format: Format, text: str, turn: Turn) -> None:
    assert parse(text, format, TOOLS, recover=True) == turn
    if turn.calls:
        assert parse(text, format, TOOLS) != turn


@pytest.mark.parametrize("recover", [False, True])
@pytest.mark.parametrize(
    ("format", "text"),
    [
        (HERMES, "<tool_call> is a tag"),
        (HERMES, "<tool_call>{'a': 1}</tool_call>"),
        (HERMES, '<tool_call>{"name": 1, "arguments": {}}</tool_call>'),
        (HERMES, '<tool_call>{"name": "f", "arguments": []}</tool_call>'),
        (HERMES, '<tool_call>{"name": "f", "arguments": {"a": 1e999}}</tool_call>'),
        (QWEN3_CODER, "<tool_call>\n<function=f\n>"),
        (QWEN3_CODER, "<tool_call>\n<function=f<a>"),
        (QWEN3_CODER, f"<tool_call>\n<function={'a' * 300}>"),
        (QWEN3_CODER, "<tool_call>\n<function=f>\ntext"),
    ],
)
def test_what_only_looks_like_a_call_is_text(format: Format, text: str, recover: bool) -> None:
    assert parse(text, format, TOOLS, recover=recover) == Turn(text)


def test_strict_reading_wants_the_closer() -> None:
    text = f"<tool_call>\n{JSON}\nno closer"
    assert parse(text, HERMES, TOOLS) == Turn(text)
    cut = f"Hi\n<tool_call>\n{JSON}\n</tool"
    assert parse(cut, HERMES, TOOLS) == Turn("Hi", unfinished=cut[2:])


def test_an_unknown_tool_is_read_and_not_valid() -> None:
    for text, format in ((f"<tool_call>{JSON}</tool_call>", HERMES), (TAGS, QWEN3_CODER)):
        (call,) = parse(text, format, [], recover=True).calls
        assert not call.valid
        assert [(e.pointer, e.message) for e in call.errors] == [("/name", "no tool is called 'f'")]
        assert call.arguments == {"a": "x"}


def test_unfit_arguments_are_read_and_not_valid() -> None:
    bad = TAGS.replace("<parameter=a>\nx", "<parameter=n>\nx")
    (call,) = parse(bad, QWEN3_CODER, TOOLS, recover=True).calls
    assert call.arguments == {"n": "x"}
    assert [e.pointer for e in call.errors] == ["/arguments/n"]
    undeclared = '<tool_call>{"name": "f", "arguments": {"b": 1}}</tool_call>'
    (call,) = parse(undeclared, HERMES, TOOLS).calls
    assert [e.pointer for e in call.errors] == ["/arguments/b"]


def test_of_a_repeated_parameter_the_first_that_says_something_counts() -> None:
    values = ["", "x", "y"]
    body = "".join(f"<parameter=a>\n{value}\n</parameter>\n" for value in values)
    (call,) = parse(f"<function=f>\n{body}</function>", QWEN3_CODER, TOOLS, recover=True).calls
    assert call == F


def test_without_calls_everything_is_text() -> None:
    parser = Parser(HERMES, TOOLS, State(Start.OPEN), calls=False, recover=True)
    events = parser.feed(f"a</think>\n\n<tool_call>{JSON}</tool_call>") + parser.close()
    content = "".join(e.text for e in events if isinstance(e, ContentDelta))
    assert content == f"<tool_call>{JSON}</tool_call>"


def test_white_space_is_content_only_without_a_call() -> None:
    assert parse(" \n", HERMES) == Turn(" \n")
    assert parse(f" \n<tool_call>{JSON}</tool_call>\n\n", HERMES, TOOLS) == Turn("", "", (F,))
    late = parse(f"<tool_call>{JSON}</tool_call>\n\nBye", HERMES, TOOLS)
    assert late == Turn("\n\nBye", "", (F,))


def test_a_format_without_reasoning_reads_tags_as_text() -> None:
    plain = Format("plain", HERMES.call)
    assert parse("<think>a</think>b", plain) == Turn("<think>a</think>b")
    assert parse("a</think>b", plain, state=State(Start.OPEN)) == Turn("", "a</think>b")


def test_deltas_come_as_soon_as_they_are_certain() -> None:
    parser = Parser(HERMES, TOOLS)
    assert parser.feed("Hello") == [ContentDelta("Hello")]
    assert parser.feed(" <tool") == [ContentDelta(" ")]
    assert parser.feed("box>") == [ContentDelta("<toolbox>")]
    assert parser.close() == []


@pytest.mark.parametrize("depth", [300, 20_000])
def test_values_that_nest_too_deeply_are_read_and_not_valid(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    tool = Tool("f", lower({"properties": {"v": {"type": "array", "items": {"type": "null"}}}}))
    tags = f"<function=f>\n<parameter=v>\n{deep}\n</parameter>\n</function>\n</tool_call>"
    json = f'<tool_call>{{"name": "f", "arguments": {{"v": {deep}}}}}</tool_call>'
    for text, format in ((tags, QWEN3_CODER), (json, HERMES)):
        (call,) = parse(text, format, [tool]).calls
        assert not call.valid
    recovered = parse(json, HERMES, [tool], recover=True)
    assert recovered.content == (json if depth > 1000 else "")


def write_call(format: Format) -> str:
    """A call of `f` in the order of a whole turn."""
    return render(Turn(calls=(F,)), format, TOOLS)


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_closers_that_come_again_are_no_content(format: Format) -> None:
    written = write_call(format)
    closers = find_closers(format)
    for closer in (*closers.of_call, *closers.of_group):
        for rest in (closer, f"\n{closer}", f"{closer}\n{closer}\n"):
            turn = parse(written + rest, format, TOOLS, recover=True)
            assert (turn.content.strip(), turn.reasoning) == ("", "")
            assert [(c.name, c.arguments) for c in turn.calls] == [("f", {"a": "x"})]


def test_text_after_closers_that_come_again_is_content() -> None:
    text = f"<tool_call>\n{JSON}\n</tool_call></tool_call>\nDone.</tool_call>"
    assert parse(text, HERMES, TOOLS, recover=True) == Turn("\nDone.</tool_call>", "", (F,))
    assert parse(text, HERMES, TOOLS).content == "</tool_call>\nDone.</tool_call>"


def test_calls_go_on_behind_a_closer_that_comes_twice() -> None:
    invoke = '<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>\n'
    text = f"<minimax:tool_call>\n{invoke}</invoke>\n{invoke}</minimax:tool_call>"
    assert parse(text, MINIMAX_M2, TOOLS, recover=True) == Turn("", "", (F, F))


@pytest.mark.parametrize("format", TAGGED, ids=lambda f: f.name)
@pytest.mark.parametrize("space", ["", "\n"])
def test_line_breaks_between_tags_matter_to_nobody(format: Format, space: str) -> None:
    written = write_call(format)
    spaced = re.sub(r"(?<=>)\s*(?=<)", space, written)
    (call,) = parse(spaced, format, TOOLS, recover=True).calls
    assert (call.name, call.arguments) == ("f", {"a": "x"})


@pytest.mark.parametrize("format", [GLM45, GLM47, LING], ids=lambda f: f.name)
@pytest.mark.parametrize("stray", ["</arg_value>", "</arg_value>\n", "\n", "\n\n"])
def test_what_does_not_belong_behind_the_name(format: Format, stray: str) -> None:
    written = write_call(format)
    damaged = re.sub(r"(?<=<tool_call>f)\n?", lambda _: stray, written)
    assert parse(damaged, format, TOOLS, recover=True) == Turn("", "", (F,))
    cut = damaged.partition("</arg_key>")[0]
    assert parse(cut, format, TOOLS, recover=True) == Turn(cut)


@pytest.mark.parametrize("head", ["｜DSML｜", "|tool|", "%fn%"])
@pytest.mark.parametrize("name", ["tool_calls", "function_calls", "calls_v5", ""])
def test_the_block_of_another_version(head: str, name: str) -> None:
    format = load_format(dump_format(DSML_V4).replace("｜DSML｜", head))
    assert format.tag_heads == (head,)
    assert head in format.reserved
    invoke = (
        f'<{head}invoke name="f">\n<{head}parameter name="a" string="true">x</{head}parameter>\n'
        f"</{head}invoke>"
    )
    text = f"<{head}{name}>\n{invoke}\n</{head}{name}>" if name else invoke
    assert parse(f"Hi\n{text}", format, TOOLS, recover=True) == Turn("Hi\n", "", (F,))
    assert parse(f"<{head}{name}> is a tag", format, TOOLS, recover=True).calls == ()


def test_a_call_without_the_block_around_it() -> None:
    text = '<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>\n'
    assert parse(text, MINIMAX_M2, TOOLS, recover=True).calls == (F,)
    assert parse(text, MINIMAX_M2, TOOLS).calls == ()
