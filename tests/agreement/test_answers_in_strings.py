"""Answers of a given form, where the template writes answers as JSON strings."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.build.turn import build_turn
from grammars.errors import PolicyError
from grammars.lowering.lower import lower
from grammars.parse.parser import Parser, parse
from grammars.turn import (
    Answer,
    ChoiceAnswer,
    GrammarAnswer,
    JsonAnswer,
    Policy,
    RegexAnswer,
    State,
    collect,
)
from grammars.wire.format import Content, Format, JsonCall, Literal
from tests.agreement.matching import Masked
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
