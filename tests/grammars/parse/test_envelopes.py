"""Calls in other envelopes than the format's own: read in whole texts, and found in streams."""

import pytest

from grammars.parse.envelopes import MAX_HELD
from grammars.parse.parser import Parser, collect
from grammars.schema.lowering.lower import lower
from grammars.turn import Event, State, Tool, Turn
from grammars.wire.envelopes import ForeignCall
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS
from tests.grammars.parse.envelope_texts import ARGUMENTS, CALL, ENVELOPES, SEVERAL

WEATHER = Tool(
    "get_weather",
    lower(
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        }
    ),
)


REACT = {
    "ReAct": f"Action: get_weather\nAction Input: {ARGUMENTS}",
    "ReAct in a fence": f"Action: get_weather\nAction Input:\n```json\n{ARGUMENTS}\n```",
}
IN_HEADERS = ("harmony", "muse")
"""Formats whose turns begin with a header, without which nothing is read there."""
READ = [format for format in FORMATS if format.name not in IN_HEADERS]
SOME = ("hermes", "llama3_json", "mistral", "mistral_small", "qwen3_coder", "glm47", "generic")
LIVE = [format for format in FORMATS if format.name in SOME]


def is_held(text: str, format: Format) -> bool:
    """Whether the text begins like the format's own calls, also in a fence: a mask holds it."""
    starts = [start.strip() for start in (*format.openings, *format.bare_start[:1])]
    begins = text.removeprefix("```").lstrip()
    return any(start and begins.startswith(start) for start in starts)


LIVE_CASES = [
    pytest.param(name, format, id=f"{name}-{format.name}")
    for name, (_, text) in ENVELOPES.items()
    for format in LIVE
    if not is_held(text, format)
]


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def read(pieces: list[str], format: Format, state: State | None = None) -> Turn:
    parser = Parser(format, [WEATHER], state, recover=True)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return collect([*events, *parser.close()])


def follow(pieces: list[str], format: Format) -> tuple[ForeignCall | None, list[Event]]:
    """What the parser of a stream says, up to a call in another envelope."""
    parser = Parser(format, [WEATHER], stream=True, foreign=["get_weather"])
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
        if parser.foreign_call is not None:
            return parser.foreign_call, events
    return None, [*events, *parser.close()]


def list_cities(turn: Turn) -> list[str]:
    """The cities of the calls, which are nothing but valid calls of the one tool. Parameters of
    Seed-OSS have no line breaks around them, so they count there."""
    assert all(call.valid and call.name == "get_weather" for call in turn.calls)
    assert all(list(call.arguments) == ["city"] for call in turn.calls)
    return [str(call.arguments["city"]).strip() for call in turn.calls]


@pytest.mark.parametrize("format", READ, ids=lambda format: format.name)
@pytest.mark.parametrize("name", [*ENVELOPES, *REACT])
def test_a_call_is_read_in_whole_texts(name: str, format: Format) -> None:
    text = REACT[name] if name in REACT else ENVELOPES[name][1]
    for whole in (text, f"Hi.\n{text}", f"\n\n{text}\n"):
        turn = read([whole], format)
        assert list_cities(turn) == ["Paris"]
        assert turn.content.strip() == ("Hi." if whole.startswith("Hi.") else "")
        assert read(list(whole), format) == turn
        assert read(cut(whole, 5), format) == turn


@pytest.mark.parametrize("format", READ, ids=lambda format: format.name)
@pytest.mark.parametrize("name", SEVERAL)
def test_several_calls_are_read(name: str, format: Format) -> None:
    for text in (SEVERAL[name], f"Hi.\n{SEVERAL[name]}"):
        turn = read([text], format)
        assert list_cities(turn) == ["Paris", "Paris"]
        assert turn.content.strip() == ("Hi." if text.startswith("Hi.") else "")
        assert read(list(text), format) == turn


@pytest.mark.parametrize(("name", "format"), LIVE_CASES)
def test_a_stream_finds_a_call_at_the_same_place(name: str, format: Format) -> None:
    kind, text = ENVELOPES[name]
    for before in ("", "Hi.\n", "Hi.\n\n  "):
        whole, events = follow([before + text], format)
        assert whole is not None
        assert whole.tool == "get_weather"
        assert whole.kind is kind
        assert whole.start == len(before.rstrip())
        assert collect(events) == Turn(before.rstrip())
        for pieces in (list(before + text), cut(before + text, 3), cut(before + text, 11)):
            found, others = follow(pieces, format)
            assert found == whole
            assert collect(others) == collect(events)


def test_a_stream_takes_react_as_text() -> None:
    for text in REACT.values():
        found, events = follow(list(text), LIVE[0])
        assert found is None
        assert collect(events) == Turn(text)


@pytest.mark.parametrize(("name", "format"), LIVE_CASES)
def test_a_stream_holds_back_no_more_than_it_may(name: str, format: Format) -> None:
    """Where the envelope does not go on as a call, all of it is emitted, also amid the stream."""
    _, text = ENVELOPES[name]
    found, _ = follow([text], format)
    assert found is not None
    for end in range(found.end):
        parser = Parser(format, [WEATHER], stream=True, foreign=["get_weather"])
        prose = text[:end] + "\x1a" + " and so on" * 3
        emitted = collect(parser.feed(prose)).content
        assert parser.foreign_call is None
        assert len(prose) - len(emitted) < MAX_HELD
        assert emitted + collect(parser.close()).content == prose


@pytest.mark.parametrize("space", ["\n", " "])
def test_what_is_too_long_for_a_beginning_is_text(space: str) -> None:
    for count in range(MAX_HELD - 80, MAX_HELD + 3):
        text = f"{{{space * count}{CALL[1:]}"
        parser = Parser(LIVE[0], [WEATHER], stream=True, foreign=["get_weather"])
        emitted = 0
        for at, character in enumerate(text):
            emitted += len(collect(parser.feed(character)).content)
            assert at + 1 - emitted <= MAX_HELD
            if parser.foreign_call is not None:
                assert emitted == 0
                break
        else:
            assert collect([*parser.close()]).calls == ()
            assert count > MAX_HELD - 40
