"""Answers of a given form, where the template writes answers as JSON strings."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import PolicyError
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import (
    Answer,
    Choice,
    ChoiceAnswer,
    GrammarAnswer,
    JsonAnswer,
    Policy,
    RegexAnswer,
    State,
    Tool,
    ToolCall,
    Turn,
    collect,
)
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Content, Format, JsonCall, KeywordArguments, Literal, Name
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked
from tests.agreement.unregistered_formats import FORMATS as UNREGISTERED
from tests.turn_strategies import chunkings

FORMAT = Format(
    "an answer in a string",
    (JsonCall(),),
    opening=(Literal('{"calls": ['),),
    closing=(Literal("]}"),),
    contents=(Content('{"answer": "', '"}', calls=False, escaped=True),),
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
ANSWERS: tuple[tuple[Answer, str], ...] = (
    (JsonAnswer(lower(SCHEMA)), '{"a": "b"}'),
    (RegexAnswer('[a-z"]+'), 'so"so"'),
    (ChoiceAnswer(("yes", "no")), "no"),
)
INVENTED = Path(__file__).parents[1] / "data" / "invented"
TOOL = Tool("final", lower(SCHEMA))
CALL = ToolCall("final", {"a": "x"})
OBJECTS = Format(
    "an answer and calls in objects", (JsonCall(),), contents=FORMAT.contents, between="\n"
)
CALLS_IN_PYTHON = Format(
    "an answer or a list in Python",
    (Name(), Literal("("), KeywordArguments(), Literal(")")),
    opening=(Literal("["),),
    closing=(Literal("]"),),
    contents=(Content('["', '"]', calls=False, escaped=True),),
    between=", ",
)


def list_formats() -> list[Format]:
    """Returns every known format that writes answers as JSON strings."""
    known = [*FORMATS, *UNREGISTERED.values(), OBJECTS, CALLS_IN_PYTHON]
    for name in ("final_answer", "json_turn"):
        source = (INVENTED / f"{name}.jinja").read_text(encoding="utf-8")
        known.append(select_format(ChatTemplate(source, name=name)).format)
    return [format for format in known if format.escapes_content]


def write(answer: str) -> str:
    return json.dumps({"answer": answer}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("answer", "right", "wrong"),
    [
        (RegexAnswer('[a-z]+"\\n'), 'yes"\n', "yes"),
        (ChoiceAnswer(('"yes"', "no\n")), '"yes"', "yes"),
        (JsonAnswer(lower(SCHEMA)), '{"a": "\\"b\\n"}', '{"a": 1}'),
    ],
)
def test_an_answer_in_a_string_has_its_form(answer: Answer, right: str, wrong: str) -> None:
    masked = Masked(FORMAT, (), Policy(answer=answer), State())
    assert masked.accepts(write(right))
    assert not masked.accepts(write(wrong))
    parser = Parser(FORMAT, answer=True)
    read = collect([*parser.feed(write(right)), *parser.close()])
    assert read.content == right


@pytest.mark.parametrize(("answer", "text"), ANSWERS)
def test_an_answer_in_a_string_leaves_the_calls(answer: Answer, text: str) -> None:
    """The lexer can tell both by their first words, with and without white space before them."""
    formats = list_formats()
    assert len(formats) >= 6
    for format in formats:
        name = "f" if "final" in format.contents[0].opener else TOOL.name
        tool, call = replace(TOOL, name=name), replace(CALL, name=name)
        masked = Masked(format, [tool], Policy(answer=answer), State())
        written = render(Turn(text), format, [tool]), render(Turn(calls=(call,)), format, [tool])
        for turn in (*written, *[f"\n{turn}" for turn in written]):
            assert masked.accepts(turn), (format.name, masked.prefix(turn), masked.grammar)
        assert not masked.accepts(render(Turn("Never"), format, [tool]))
        parser = Parser(format, [tool], answer=True)
        read = collect([*parser.feed(written[1]), *parser.close()])
        assert [call.name for call in read.calls] == [name]


def test_an_answer_in_a_string_in_ascii() -> None:
    source = (INVENTED / "json_turn.jinja").read_text(encoding="utf-8")
    source = source.replace("m.content|tojson", "m.content|tojson(ensure_ascii=True)")
    format = select_format(ChatTemplate(source)).format
    assert format.contents[0].ascii
    turn = Turn('Zürich "東京" \x07🌧')
    written = render(turn, format, [TOOL])
    assert written.isascii()
    masked = Masked(format, [TOOL], Policy(), State())
    plain = replace(format, contents=(replace(format.contents[0], ascii=False),))
    for text in (written, written.replace("\\ud83c", "\\uD83C"), render(turn, plain, [TOOL])):
        assert masked.accepts(text)
        assert parse(text, format, [TOOL]) == turn
    for half in ("\\ud83c", "\\ud83c\\u0041", "\\udf27"):
        assert not masked.accepts(format.contents[0].opener + half + format.contents[0].closer)
    assert not Masked(plain, [TOOL], Policy(), State()).accepts(written)


@pytest.mark.parametrize(("format", "lead"), [(OBJECTS, '{"'), (CALLS_IN_PYTHON, "[")])
@pytest.mark.parametrize("answer", [None, RegexAnswer("no|yes")])
def test_a_prompt_may_begin_what_both_begin_with(
    format: Format, lead: str, answer: Answer | None
) -> None:
    masked = Masked(format, [TOOL], Policy(answer=answer), State(lead=lead))
    for turn in (Turn("no"), Turn(calls=(CALL,))):
        text = render(turn, format, [TOOL])
        assert masked.accepts(text.removeprefix(lead))
        assert not masked.accepts(text)


def test_a_prompt_that_begins_the_answer_leaves_no_call() -> None:
    state = State(lead='{"answer": "')
    assert Masked(OBJECTS, [TOOL], Policy(), state).accepts('so"}')
    with pytest.raises(PolicyError, match="but no allowed turn does"):
        build_turn(OBJECTS, [TOOL], Policy(Choice.REQUIRED), state)


def test_a_grammar_in_a_string_is_refused() -> None:
    with pytest.raises(PolicyError, match="writes answers as JSON strings"):
        build_turn(FORMAT, (), Policy(answer=GrammarAnswer('start: "a"')))


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r'{"answer": "a\u00fc \ud83c\udf27 \"}\n"}', 'aü 🌧 "}\n'),
        (r'{"answer": "cut \u00', "cut "),
        (r'{"answer": "no \q escape"}', r"no \q escape"),
        ('{"answer": ""}', ""),
    ],
)
def test_escapes_are_read_however_the_text_is_cut(text: str, content: str) -> None:
    parser = Parser(FORMAT)
    events = [event for character in text for event in parser.feed(character)]
    assert collect([*events, *parser.close()]).content == content
    assert parse(text, FORMAT).content == content


# What stands in a string, and what it means. An escape that JSON does not have is text.
PIECES = (
    ("a", "a"),
    ("\U0001f327", "\U0001f327"),
    (r"\n", "\n"),
    (r"\/", "/"),
    (r"\"", '"'),
    (r"\\", "\\"),
    (r"\u00fC", "\u00fc"),
    (r"\ud83C\uDf27", "\U0001f327"),
    (r"\q", r"\q"),
    (r"\uZZ", r"\uZZ"),
    (r"\u00G", r"\u00G"),
    (r"\ud83d-", r"\ud83d-"),
    (r"\ud83d\n", "\\ud83d\n"),
    (r"\uD83d\u0041", r"\uD83dA"),
    (r"\ud83d\ud83c\udf27", "\\ud83d\U0001f327"),
    (r"\udc00", r"\udc00"),
)


@given(data=st.data(), pieces=st.lists(st.sampled_from(PIECES), max_size=12))
def test_each_escape_is_read_by_itself(data: st.DataObject, pieces: list[tuple[str, str]]) -> None:
    written = "".join([written for written, _ in pieces])
    meant = "".join([meant for _, meant in pieces])
    parser = Parser(FORMAT)
    events = parser.feed('{"answer": "')
    for chunk in data.draw(chunkings(written)):
        events += parser.feed(chunk)
    assert collect(events).content == meant  # nothing waits for the end of the string
    assert collect([*events, *parser.feed('"}'), *parser.close()]).content == meant


def test_all_content_is_in_strings_or_none() -> None:
    with pytest.raises(TypeError, match="all content is in JSON strings, or none"):
        replace(FORMAT, contents=(Content(), *FORMAT.contents))


def test_escaped_content_stands_in_quotes_and_alone() -> None:
    for wrong in (("<a>", "</a>", False), ('"', '"', True)):
        with pytest.raises(TypeError):
            Content(wrong[0], wrong[1], calls=wrong[2], escaped=True)
