"""Calls in other envelopes than the format's own: read in whole texts, and found in streams."""

import pytest

from grammars.parse.envelopes import MAX_HELD
from grammars.parse.parser import Parser, collect
from grammars.schema.lowering.lower import lower
from grammars.turn import Event, State, Tool, Turn
from grammars.wire.envelopes import EnvelopeKind, ForeignCall
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS

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
ARGUMENTS = '{"city": "Paris"}'
STRING = '"{\\"city\\": \\"Paris\\"}"'
CALL = f'{{"name": "get_weather", "arguments": {ARGUMENTS}}}'
PARAMETER = '<parameter name="city">Paris</parameter>'

FENCE, TAG = EnvelopeKind.FENCE, EnvelopeKind.TAG
OBJECT, LIST, FUNCTION = EnvelopeKind.OBJECT, EnvelopeKind.LIST, EnvelopeKind.FUNCTION

ENVELOPES: dict[str, tuple[EnvelopeKind, str]] = {
    "fence with a language": (FENCE, f"```json\n{CALL}\n```"),
    "fence without a language": (FENCE, f"```\n{CALL}\n```"),
    "fence of a tool call": (FENCE, f"```tool_call\n{CALL}\n```"),
    "fence around tags": (FENCE, f"```xml\n<tools>\n{CALL}\n</tools>\n```"),
    "fence around a function": (FENCE, '```tool_code\nget_weather(city="Paris")\n```'),
    "object": (OBJECT, CALL),
    "object over lines": (OBJECT, f'{{\n  "name": "get_weather",\n  "arguments": {ARGUMENTS}\n}}'),
    "list": (LIST, f"[{CALL}]"),
    "<tools>": (TAG, f"<tools>\n{CALL}\n</tools>"),
    "<function_call>": (TAG, f"<function_call>{CALL}</function_call>"),
    "<functioncall> without closer": (TAG, f"<functioncall> {CALL}"),
    "<function=> with JSON": (TAG, f"<function=get_weather>{ARGUMENTS}</function>"),
    "<function=> with tags": (
        TAG,
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>",
    ),
    "<invoke>": (TAG, f'<invoke name="get_weather">\n{PARAMETER}\n</invoke>'),
    "<invoke> in <function_calls>": (
        TAG,
        f'<function_calls>\n<invoke name="get_weather">\n{PARAMETER}\n</invoke>\n</function_calls>',
    ),
    "<invoke> with JSON": (TAG, f'<invoke name="get_weather">{ARGUMENTS}</invoke>'),
    "[TOOL_CALLS]": (TAG, f"[TOOL_CALLS]{CALL}"),
    "[TOOL_CALLS] with a list": (TAG, f"[TOOL_CALLS] [{CALL}]"),
    "[TOOL_CALLS] with a name": (TAG, f"[TOOL_CALLS]get_weather{ARGUMENTS}"),
    "[TOOL_CALLS] with [ARGS]": (TAG, f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}"),
    "<|python_tag|>": (TAG, f"<|python_tag|>{CALL}"),
    "<|python_tag|> with a function": (TAG, '<|python_tag|>get_weather(city="Paris")'),
    "functions.NAME": (FUNCTION, f"functions.get_weather({ARGUMENTS})"),
    "list of functions.NAME": (LIST, f"[functions.get_weather({ARGUMENTS})]"),
    "NAME": (FUNCTION, 'get_weather(city="Paris")'),
    "list of NAME": (LIST, '[get_weather(city="Paris")]'),
    "name with a prefix": (OBJECT, CALL.replace("get_weather", "functions.get_weather")),
    "function and parameters": (
        OBJECT,
        f'{{"function": "get_weather", "parameters": {ARGUMENTS}}}',
    ),
    "tool and args": (OBJECT, f'{{"tool": "get_weather", "args": {ARGUMENTS}}}'),
    "tool_name and tool_input": (
        OBJECT,
        f'{{"tool_name": "get_weather", "tool_input": {ARGUMENTS}}}',
    ),
    "the type first": (
        OBJECT,
        f'{{"type": "function", "name": "get_weather", "parameters": {ARGUMENTS}}}',
    ),
    "the arguments first": (OBJECT, f'{{"arguments": {ARGUMENTS}, "name": "get_weather"}}'),
    "arguments as a string": (OBJECT, f'{{"name": "get_weather", "arguments": {STRING}}}'),
    "a string first": (OBJECT, f'{{"arguments": {STRING}, "name": "get_weather"}}'),
    "tool_calls": (LIST, f'{{"tool_calls": [{CALL}]}}'),
    "tool_calls of OpenAI": (
        LIST,
        f'{{"tool_calls": [{{"type": "function", "function": {CALL}}}]}}',
    ),
    "function of OpenAI": (OBJECT, f'{{"type": "function", "function": {CALL}}}'),
    "function_call": (OBJECT, f'{{"function_call": {CALL}}}'),
    "single quotes": (OBJECT, CALL.replace('"', "'")),
    "opener without its last character": (TAG, f"<tool_call\n{CALL}\n</tool_call>"),
    "opener without its first character": (TAG, f"tool_call>\n{CALL}\n</tool_call>"),
    "doubled opener": (TAG, f"<tool_call>\n<tool_call>\n{CALL}\n</tool_call>"),
    "fence around the tags of Hermes": (FENCE, f"```\n<tool_call>\n{CALL}\n</tool_call>\n```"),
    "tags of Hermes without closer": (TAG, f"<tool_call>\n{CALL}"),
    "another version of DSML": (
        TAG,
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
}
SEVERAL = {
    "objects on lines": f"{CALL}\n{CALL}",
    "objects on a line": f"{CALL}, {CALL}",
    "list": f"[{CALL}, {CALL}]",
    "fence": f"```json\n{CALL}\n{CALL}\n```",
    "list in a fence": f"```json\n[\n{CALL},\n{CALL}\n]\n```",
    "two fences": f"```json\n{CALL}\n```\n```json\n{CALL}\n```",
    "tags": f"<tools>{CALL}</tools>\n<tools>{CALL}</tools>",
    "list of functions": '[get_weather(city="Paris"), get_weather(city="Paris")]',
    "tool_calls": f'{{"tool_calls": [{CALL}, {CALL}]}}',
}
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
