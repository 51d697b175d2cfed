"""`<thinking>` that a model writes although its template knows no such block."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.errors import RequestError
from constrained.prompt.job import Job
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import (
    THINKING_TAGS,
    Choice,
    ContentDelta,
    Event,
    Policy,
    ReasoningDelta,
    Start,
    State,
    Tool,
    ToolCall,
    Turn,
    collect,
)
from grammars.wire.format import Content, Format
from grammars.wire.formats import FORMATS, GENERIC, HARMONY, HERMES, KIMI_K3, LLAMA3_JSON
from tests.agreement.matching import Masked
from tests.scripted_model import scripted
from tests.templates import PING, hermes_call

TOOLS = [Tool("ping", lower({"type": "object"}))]
CALL = hermes_call("ping")
PLAIN = [f for f in FORMATS if f.contents == (Content(),) and not f.tail]
PIECES = ("<thinking>", "</thinking>", "<think>", "</think>", "\n", " ", "a", "<", "</thin", CALL)


def read(text: str, format: Format = GENERIC, start: Start = Start.PLAIN, **options: Any) -> Turn:
    return parse(text, format, TOOLS, State(start), thoughts=THINKING_TAGS, **options)


def merged(events: Sequence[Event]) -> list[Any]:
    """The events, with texts that follow each other put together."""
    found: list[Any] = []
    for event in events:
        last = found[-1] if found else None
        match event, last:
            case (ContentDelta(b), ContentDelta(a)) | (ReasoningDelta(b), ReasoningDelta(a)):
                found[-1] = type(event)(a + b)
            case _:
                found.append(event)
    return found


def feed(parts: Sequence[str], format: Format, state: State, recover: bool) -> list[Event]:
    parser = Parser(format, TOOLS, state, recover=recover, thoughts=THINKING_TAGS)
    return [event for part in parts for event in parser.feed(part)] + parser.close()


def assert_same_in_every_cut(
    text: str, format: Format, state: State | None = None, *, recover: bool = False
) -> None:
    state = state or State()
    whole = merged(feed([text], format, state, recover))
    assert merged(feed(list(text), format, state, recover)) == whole
    for i in range(len(text) + 1):
        assert merged(feed([text[:i], text[i:]], format, state, recover)) == whole, i


TURNS = {
    "<thinking>\nHm.\n</thinking>\n\nYes.": ("Hm.", "Yes.", 0),
    "<thinking>Hm.</thinking>Yes.": ("Hm.", "Yes.", 0),
    " \n<thinking>Hm.</thinking> Yes.": ("Hm.", " Yes.", 0),
    "<thinking></thinking>": ("", "", 0),
    "<thinking>Hm": ("Hm", "", 0),
    "<thinking>Hm\n</thin": ("Hm\n</thin", "", 0),
    "<thin": ("", "<thin", 0),
    "<thinks>": ("", "<thinks>", 0),
    "Yes. <thinking>Hm.</thinking>": ("", "Yes. <thinking>Hm.</thinking>", 0),
    f"<thinking>Hm.</thinking>\n{CALL}": ("Hm.", "", 1),
    f"<thinking>Hm.{CALL}": ("Hm.", "", 1),
    f"<thinking>Hm.</thinking>Yes.\n{CALL}\n{CALL}": ("Hm.", "Yes.", 2),
    "<thinking>a</thinking><thinking>b</thinking>": ("a", "<thinking>b</thinking>", 0),
}


@pytest.mark.parametrize("text", TURNS)
def test_tags_are_reasoning(text: str) -> None:
    turn = read(text)
    assert (turn.reasoning, turn.content, len(turn.calls)) == TURNS[text]
    for start in Start:
        for format in (GENERIC, HERMES, HARMONY, KIMI_K3):
            if start is Start.PLAIN or format.reasoning:
                assert_same_in_every_cut(text, format, State(start))
                assert_same_in_every_cut(text, format, State(start), recover=True)


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_every_format(format: Format) -> None:
    call = render(Turn(calls=(ToolCall("ping", {}),)), format)
    for text in ("<thinking>\nHm.\n</thinking>\n\n", "<thinking>Hm."):
        turn = read(text + call * (format.bare is None), format)
        assert turn.reasoning.rstrip("\n") == "Hm."
        assert [c.name for c in turn.calls] == ["ping"] * (format.bare is None)
        assert turn.content == ""
        assert_same_in_every_cut(text + call, format)


def test_off_it_is_content() -> None:
    text = "<thinking>Hm.</thinking>Yes."
    assert parse(text, GENERIC, TOOLS) == Turn(content=text)
    assert parse(text, HERMES, TOOLS) == Turn(content=text)


def test_where_the_format_has_a_block() -> None:
    assert read("<think>\na\n</think>\n\nb", HERMES) == Turn("b", "a")
    assert read("<thinking>a</thinking>b", HERMES) == Turn("b", "a")
    assert read("<thinking>a</thinking>b", HERMES, Start.CLOSED) == Turn("b", "a")
    inside = read("<thinking>a</thinking>b</think>c", HERMES, Start.OPEN)
    assert inside == Turn("c", "<thinking>a</thinking>b")
    after = read("<think>a</think><thinking>b</thinking>", HERMES)
    assert after == Turn("<thinking>b</thinking>", "a")


def test_a_bare_call_behind_thoughts_is_a_call_in_recovery_only() -> None:
    text = '<thinking>a</thinking>{"name": "ping", "parameters": {}}'
    assert read(text, LLAMA3_JSON).calls == ()
    assert [c.name for c in read(text, LLAMA3_JSON, recover=True).calls] == ["ping"]


def test_it_is_told_as_it_comes() -> None:
    parser = Parser(GENERIC, TOOLS, thoughts=THINKING_TAGS)
    assert parser.feed("<thin") == []
    assert parser.feed("king>Hm, ") == [ReasoningDelta("Hm, ")]
    assert not parser.is_reasoning  # the budget counts the block of the format
    assert parser.feed("well.</") == [ReasoningDelta("well.")]
    assert parser.feed("thinking>Yes") == [ContentDelta("Yes")]


def test_an_answer_is_not_read_so() -> None:
    parser = Parser(GENERIC, TOOLS, answer=True, thoughts=THINKING_TAGS)
    events = [*parser.feed("<thinking>a</thinking>"), *parser.close()]
    assert collect(events) == Turn("<thinking>a</thinking>")


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.sampled_from(FORMATS), st.booleans())
def test_no_text_gets_lost(pieces: list[str], format: Format, recover: bool) -> None:
    text = "".join(pieces)
    assert_same_in_every_cut(text, format, recover=recover)
    events = feed([text], format, State(), recover)
    if text.startswith("<thinking>") and not collect(events).calls:
        turn = collect(events)
        told = turn.reasoning + turn.content + turn.unfinished
        assert told.count("a") == text.count("a")


@pytest.mark.parametrize("format", PLAIN, ids=lambda f: f.name)
def test_the_grammar_takes_it_where_text_is_free(format: Format) -> None:
    call = render(Turn(calls=(ToolCall("ping", {}),)), format, state=State(calls=0))
    text = "<thinking>Hm.</thinking>" + ("Yes." if format.bare else format.before + call)
    assert Masked(format, TOOLS, Policy(), State(calls=0)).accepts(text)
    turn = parse(text, format, TOOLS, State(calls=0), thoughts=THINKING_TAGS)
    assert turn.reasoning == "Hm."
    required = Masked(format, TOOLS, Policy(Choice.REQUIRED), State(calls=0))
    assert "<thinkin".startswith(required.prefix(text))  # what calls begin with, too


def test_a_model_that_writes_tags() -> None:
    said = f"<thinking>\nHm.\n</thinking>\n\n{CALL}"
    with scripted(said) as model:
        reply = model.call("Hi", [PING])
        assert (reply.reasoning, reply.content) == ("Hm.", "")
        assert [c.name for c in reply.calls] == ["ping"]
    with scripted("<thinking>Hm.</thinking>Yes.") as model:
        reply = model.call("Hi")
        assert (reply.reasoning, reply.content) == ("Hm.", "Yes.")
        reply = model.call("Hi", thinking_tags=False)
        assert (reply.reasoning, reply.content) == ("", "<thinking>Hm.</thinking>Yes.")
        stream = model.stream("Hi")
        assert "".join(e.text for e in stream if isinstance(e, ReasoningDelta)) == "Hm."
        given: Any = {"thinking_tags": 1}
        with pytest.raises(RequestError, match="thinking_tags is 1"):
            model.call("Hi", **given)
        assert model.generate("Hi", regex="<thinking>.*") == "<thinking>Hm.</thinking>Yes."
        job = Job([{"role": "user", "content": "Hi"}])
        assert model.compile(job).plan.thinking_tags
