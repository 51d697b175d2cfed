"""What models write without a mask, as `docs/formats.md` lists it: calls, or content, all of it."""

import pytest

from grammars.parse import Parser, collect, parse
from grammars.schema.lowering.lower import lower
from grammars.suite.parser_output import as_reading
from grammars.suite.reading import find_lost
from grammars.turn import Tool, ToolCall, Turn
from grammars.wire.format import Format
from grammars.wire.formats import HERMES, LLAMA3_JSON

TOOLS = [Tool("f", lower({"type": "object", "properties": {"a": {"type": "string"}}}))]
CALL = '{"name": "f", "arguments": {"a": "zorn"}}'
OPEN, CLOSE = "<tool_call>\n", "\n</tool_call>"
HALF = b"\xe2".decode(errors="surrogateescape")
F = ToolCall("f", {"a": "zorn"})


def wrap(json: str) -> str:
    return OPEN + json + CLOSE


def read_in_pieces(text: str, *, recover: bool) -> Turn:
    parser = Parser(HERMES, TOOLS, recover=recover)
    events = [event for character in text for event in parser.feed(character)]
    return collect([*events, *parser.close()])


@pytest.mark.parametrize(
    "text",
    [
        wrap(CALL.replace("}}", ",}}")),
        wrap(CALL.replace("{", "{ /* why */ ", 1)),
        wrap(CALL.replace('"zorn"', "NaN")),
        wrap(CALL.replace('"name"', "name")),
        wrap(CALL.replace("zorn", "zo\nrn")),
        wrap(CALL.replace("{", '{"reason": "kvelp", ', 1)),
        wrap(CALL.replace("{", '{"type": "kvelp", ', 1)),
        wrap(CALL.replace("{", '{"index": "kvelp", ', 1)),
        wrap(CALL.replace("{", '{"id": {"kvelp": 1}, ', 1)),
        wrap(CALL.replace("{", '{"id": true, ', 1)),
        wrap(CALL.replace("{", '{"index": true, ', 1)),
        wrap(CALL.replace("{", '{"args": {"a": "kvelp"}, ', 1)),
        wrap(CALL.replace("{", '{"parameters": {}, ', 1)),
        f"Sure: {CALL}",
        OPEN + CALL[:-8],
        f"{OPEN}{CALL[:-8]}\ufffd",
        OPEN + CALL[:-8] + HALF,
    ],
)
def test_what_is_no_call_is_content_to_the_character(text: str) -> None:
    assert parse(text, HERMES, TOOLS, recover=True) == Turn(text)
    assert read_in_pieces(text, recover=True) == Turn(text)
    strict = read_in_pieces(text, recover=False)
    assert strict == parse(text, HERMES, TOOLS)
    assert strict.content + strict.unfinished == text


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        (OPEN + CALL, Turn(calls=(F,))),
        (wrap(f"{CALL}\n{CALL}"), Turn(calls=(F, F))),
        (CALL, Turn(calls=(F,))),
        (wrap(CALL.replace("arguments", "args")), Turn(calls=(F,))),
        (wrap('{"name": "f"}'), Turn(calls=(ToolCall("f", {}),))),
        (wrap(CALL.replace("{", '{"type": "function", "index": 0, ', 1)), Turn(calls=(F,))),
        (
            wrap(CALL.replace("{", '{"id": "kvelp", ', 1)),
            Turn(calls=(ToolCall("f", {"a": "zorn"}, id="kvelp"),)),
        ),
        (wrap(CALL.replace("{", '{"id": "", ', 1)), Turn(calls=(F,))),
        (wrap(CALL.replace('{"a"', '{"a": "kvelp", "a"')), Turn(calls=(F,))),
        (OPEN + wrap(CALL), Turn(calls=(F,))),
        (wrap(CALL.replace('"', "'")), Turn(calls=(F,))),
        (wrap(f"```json\n{CALL}\n```"), Turn(calls=(F,))),
        (wrap(f"[{CALL}, {CALL}]"), Turn(calls=(F, F))),
        (wrap(CALL) + CLOSE, Turn(calls=(F,))),
        (wrap(CALL) + "<|im_end|>", Turn("<|im_end|>", calls=(F,))),
        (f"```\n{wrap(CALL)}\n```", Turn(calls=(F,))),
    ],
)
def test_what_is_read_as_a_call(text: str, turn: Turn) -> None:
    assert parse(text, HERMES, TOOLS, recover=True) == turn
    assert read_in_pieces(text, recover=True) == turn


def test_values_of_python_are_read() -> None:
    (call,) = parse(wrap(CALL.replace('"zorn"', "None")), HERMES, TOOLS, recover=True).calls
    assert call.arguments == {"a": None}
    assert [error.pointer for error in call.errors] == ["/arguments/a"]


@pytest.mark.parametrize("format", [HERMES, LLAMA3_JSON], ids=lambda format: format.name)
@pytest.mark.parametrize("recover", [True, False])
@pytest.mark.parametrize("key", ["id", "type", "index", "parameters", "arguments", "args"])
@pytest.mark.parametrize("value", ['"kvelp"', '{"kvelp": 1}', "7"])
def test_a_further_member_of_a_call_is_never_lost(
    format: Format, key: str, value: str, *, recover: bool
) -> None:
    for own in ("arguments", "parameters"):
        if own == key:
            continue
        text = f'{{"{key}": {value}, "name": "f", "{own}": {{"a": "zorn"}}}}'
        turn = parse(wrap(text) if format is HERMES else text, format, TOOLS, recover=recover)
        ids = "\n".join(call.id or "" for call in turn.calls)
        reading = as_reading(Turn(f"{turn.content}\n{ids}", calls=turn.calls), [])
        assert find_lost(text, reading) is None
