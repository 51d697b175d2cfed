"""A parser is not asked about texts with two meanings."""

from typing import Any

import pytest

from grammars.parse.parser import parse
from grammars.suite.draws import is_clear
from grammars.suite.reading import Claims
from grammars.suite.strategies import make_tool, write
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import HERMES, LFM2, MINICPM5, QWEN3_CODER

RAW, SPACE = Claims(exact=False), Claims(space=False)


def ask(turn: Turn, format: Format, kind: Any, claims: Claims) -> bool:
    tool = make_tool("f", {"type": "object", "properties": {"note": {"type": kind}}})
    written = write(turn, format, (tool,))
    assert written is not None
    return is_clear(written, format, claims)


def call(value: object) -> Turn:
    return Turn(calls=(ToolCall("f", {"note": value}),))


@pytest.mark.parametrize(
    ("turn", "format", "kind", "claims", "is_asked"),
    [
        (Turn("zorn"), HERMES, "string", Claims(), True),
        (Turn("", "zorn"), HERMES, "string", Claims(), False),
        (Turn("kvelp", "zorn"), HERMES, "string", Claims(), True),
        # What a call in another envelope is, docs/formats.md says.
        (Turn('f(note="zorn")'), HERMES, "string", Claims(), False),
        (Turn('f(note="zorn")'), HERMES, "string", RAW, False),
        (Turn('It is f(note="zorn").'), HERMES, "string", Claims(), True),
        (Turn('f(days="zorn")'), HERMES, "string", Claims(), True),
        (Turn('g(note="zorn")'), HERMES, "string", Claims(), True),
        (Turn("zorn\n"), HERMES, "string", Claims(), True),
        (Turn("zorn\n"), HERMES, "string", SPACE, False),
        (call("it's"), LFM2, "string", Claims(), True),
        (call("it's"), LFM2, "string", RAW, False),
        (call("its"), LFM2, "string", RAW, True),
        (call("it's"), HERMES, "string", RAW, True),
        (call("a\r"), MINICPM5, "string", RAW, False),
        (call("a\n"), MINICPM5, "string", RAW, True),
        (call(5), QWEN3_CODER, ["integer", "string"], Claims(), True),
        (call(5), QWEN3_CODER, ["integer", "string"], RAW, False),
        (call("5"), QWEN3_CODER, "string", RAW, True),
        (call("5"), HERMES, ["integer", "string"], RAW, True),
    ],
)
def test_what_has_two_meanings_is_not_asked(
    turn: Turn, format: Format, kind: Any, claims: Claims, is_asked: bool
) -> None:
    assert ask(turn, format, kind, claims) == is_asked


def test_our_own_parser_reads_such_content_as_it_promises() -> None:
    tool = make_tool("f", {"type": "object", "properties": {"note": {"type": "string"}}})
    text = 'f(note="zorn")'
    assert parse(text, HERMES, (tool,)).content == text
    assert parse(text, HERMES, (tool,), recover=True).calls == (ToolCall("f", {"note": "zorn"}),)
    assert parse(text, HERMES, (), recover=True).content == text
