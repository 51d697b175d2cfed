"""Data that spell what ends a value, an answer or a call."""

import pytest

from grammars.parse.parser import Parser, collect, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Event, JsonAnswer, Policy, Start, State, Tool, ToolCall, Turn
from grammars.wire.format import Format, JsonArguments, Literal, Marker, Name, TaggedArguments
from grammars.wire.formats import (
    COHERE_MOE,
    COMMAND_R7B,
    FUNCTIONARY_V32,
    GLM47,
    KIMI_K3,
    LING,
    SOLAR,
)
from tests.turn_completer import turn_completer

SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
TOOLS = [Tool("f", lower(SCHEMA))]


def read(text: str, format: Format, state: State, step: int, *, answer: bool) -> Turn:
    parser = Parser(format, TOOLS, state, answer=answer, stream=True)
    events: list[Event] = []
    for at in range(0, len(text), step):
        events += parser.feed(text[at : at + step])
    return collect([*events, *parser.close()])


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("format", [GLM47, LING], ids=lambda f: f.name)
def test_a_list_may_hold_what_ends_a_value(format: Format, step: int) -> None:
    tags = format.hole
    assert isinstance(tags, TaggedArguments)
    text = f"{tags.close}{tags.open}b] {tags.close}{tags.end}"
    line = "" if format is GLM47 else "\n"
    raw = f"a{tags.after_key}" + f'["{text}"]'.replace("\n", "\\n")
    turn = f"<tool_call>f{line}{tags.open}{raw}{tags.close}{tags.end}"
    (call,) = read(turn, format, State(), step, answer=False).calls
    assert call.arguments == {"a": [text]}


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(
    ("format", "state", "before", "after", "inner"),
    [
        (SOLAR, State(), "<|content|>", "<|end|>", "<|end|>"),
        (
            COHERE_MOE,
            State(Start.CLOSED),
            "<|START_TEXT|>",
            "<|END_TEXT|>",
            "<|END_TEXT|>",
        ),
        (FUNCTIONARY_V32, State(lead=">>>"), "all\n", "", ">>>f\n{}"),
    ],
    ids=["solar", "cohere_moe", "functionary_v32"],
)
def test_an_answer_may_hold_what_ends_content_or_opens_calls(
    format: Format, state: State, before: str, after: str, inner: str, step: int
) -> None:
    turn = read(f'{before}{{"a": "{inner}"}}{after}', format, state, step, answer=True)
    assert turn == Turn(f'{{"a": "{inner}"}}')


@pytest.mark.parametrize("format", [COHERE_MOE, COMMAND_R7B], ids=lambda f: f.name)
def test_an_answer_that_holds_its_closer_is_ended_behind_it(format: Format) -> None:
    way = format.contents[0]
    schema = lower({"type": "object", "properties": {"a": {"type": "string"}}})
    completer = turn_completer(format, [], Policy(answer=JsonAnswer(schema)), State(Start.CLOSED))
    whole = f'{way.opener}{{"a": "x{way.closer}y"}}{way.closer}'
    for at in range(len(whole) - len(way.closer) - 2, len(whole) + 1):
        assert completer.complete(whole[:at]) == whole[at:]


def test_a_text_that_ends_as_its_closer_begins_is_ended() -> None:
    tags = KIMI_K3.hole
    assert isinstance(tags, TaggedArguments)
    names = ("a", "b")
    properties = {name: {"type": "string"} for name in names}
    schema = lower({"type": "object", "properties": properties, "required": [*names]})
    tool = Tool("f", schema)
    kind = f"{tags.after_key}string{tags.after_kind}"
    head = '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
    written = f"{head}{tags.open}a{kind}x{tags.close}{tags.close}{tags.open}b{kind}"
    rest = f"{tags.close}{tags.end}<|close|>tools<|sep|>"
    completer = turn_completer(KIMI_K3, [tool], Policy(), State())
    for at in range(len(f"{head}{tags.open}a{kind}x{tags.close}") + 4, len(written) + 1):
        assert completer.complete(written[:at]) == (written + rest)[at:]


def test_a_tag_of_an_argument_may_end_with_a_space() -> None:
    tags = TaggedArguments(open="<<set ", after_key=":=", close="<<end>>\n", end="<<done>>")
    format = Format("lines", (Marker("<<call "), Name(), Literal(">>\n"), tags))
    tool = Tool("f", lower({"type": "object", "properties": {"a": {}, "b": {"type": "integer"}}}))
    turn = Turn(content="Look:", calls=(ToolCall("f", {"a": "x", "b": 3}),))
    assert parse(render(turn, format, [tool]), format, [tool]) == turn


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(("between", "closing"), [(" " * 16 + "\n", " " * 8), ("\n" * 12, "\n")])
def test_a_separator_and_a_closing_that_begin_alike(between: str, closing: str, step: int) -> None:
    format = Format(
        "spaced",
        (Marker("<call>"), Name(), JsonArguments(), Marker("</call>")),
        opening=(Marker("<calls>"),),
        closing=(Literal(closing), Marker("</calls>")),
        between=between,
    )
    calls = (ToolCall("f", {"a": []}), ToolCall("f", {}), ToolCall("f", {"a": ["b"]}))
    text = render(Turn(calls=calls), format, TOOLS)
    assert read(text, format, State(), step, answer=False) == Turn(calls=calls)
    assert turn_completer(format, TOOLS, Policy(), State()).complete(text) == ""
