"""Answers of a given form, where the template writes answers as JSON strings."""

import json
from typing import Any

import pytest

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


def test_escaped_content_stands_in_quotes_and_alone() -> None:
    for wrong in (("<a>", "</a>", False), ('"', '"', True)):
        with pytest.raises(TypeError):
            Content(wrong[0], wrong[1], calls=wrong[2], escaped=True)
