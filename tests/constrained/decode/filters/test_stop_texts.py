"""A stop text ends the content in front of it, however the text is cut into tokens and events."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from constrained.decode.filters import stop_texts as stopping
from constrained.decode.filters.events import StreamEvent
from constrained.decode.filters.stop_texts import MAX_CHARACTERS, StopFilter, read_stops
from constrained.decode.request import DecodeInput, DecodeOptions, Request
from constrained.decode.transcript import Transcript
from constrained.engine.protocol import Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import ReplyError, RequestError
from constrained.mask.logprobs import TokenDrawn
from constrained.model.call_options import read_call_options
from grammars.parse.parser import Parser
from grammars.turn import ArgumentsDelta, CallOpened, ContentDelta, Event, ReasoningDelta, collect
from grammars.wire.formats import HERMES
from tests.scripted_model import BYTES, scripted, wishing
from tests.templates import OPEN, PING, WRITE, hermes_call, tool

GREEDY = Sampling(temperature=0)
LETTERS = st.text("ab\n é", max_size=12)
STOPS = st.lists(st.text("ab\n é", min_size=1, max_size=4), max_size=4).map(tuple)


def find_first(text: str, stops: Sequence[str]) -> tuple[int, str | None]:
    """Where the first stop text begins, and which it is; the end of the text if there is none."""
    found = [(place, len(stop), stop) for stop in stops if (place := text.find(stop)) >= 0]
    place, _, stop = min(found, default=(len(text), 0, None))
    return place, stop


def content(told: Sequence[StreamEvent]) -> str:
    return "".join(one.text for one in told if isinstance(one, ContentDelta))


@given(st.data(), LETTERS.filter(lambda text: not text.startswith("<")), STOPS)
def test_what_is_sent_is_the_text_in_front_of_the_first_stop_text(
    data: st.DataObject, text: str, stops: tuple[str, ...]
):
    written = text.encode()
    cuts = data.draw(st.lists(st.integers(0, len(written)), max_size=8).map(sorted))
    edges = [0, *cuts, len(written)]
    pieces = tuple(written[a:b] for a, b in pairwise(edges))
    vocabulary = Vocabulary(pieces, {}, frozenset(), (), BYTES.encode, BYTES.encode_special, None)
    parser = partial(Parser, HERMES, ())

    def write(stops: tuple[str, ...]) -> tuple[Transcript, list[StreamEvent], int]:
        request = Request(DecodeInput([0], parser), DecodeOptions(stops=stops))
        transcript = Transcript(request, vocabulary)
        sent = list[StreamEvent]()
        for token in range(len(pieces)):
            sent += transcript.write(token)
            if transcript.stopped is not None:
                assert not transcript.close(is_whole=True)
                break
        sent += transcript.close(is_whole=True)
        return transcript, sent, len(transcript.tokens)

    whole = content(write(())[1])
    place, stop = find_first(whole, stops)
    transcript, sent, count = write(stops)
    assert content(sent) == content(transcript.events) == whole[:place]
    assert transcript.stopped == stop
    if stop is None:
        assert count == len(pieces)
    else:
        assert transcript.events == sent


OPENED = CallOpened(0, "f")
EVENTS = st.lists(st.one_of(LETTERS.filter(bool).map(ContentDelta), st.just(OPENED)), max_size=8)


@given(EVENTS, STOPS)
@example([ContentDelta("abc"), OPENED], ("abcd", "bc"))
@example([ContentDelta("abcd"), OPENED], ("abcd", "bc"))
def test_something_else_in_between_begins_another_text(events: list[Event], stops: tuple[str, ...]):
    wanted = list[Event | str]()
    texts = [""]
    stopped = None
    for event in [*events, OPENED]:  # the end of the last text
        if isinstance(event, ContentDelta):
            texts[-1] += event.text
            continue
        place, stopped = find_first(texts[-1], stops)
        wanted += [texts[-1][:place]] if place else []
        if stopped is not None:
            break
        wanted.append(event)
        texts.append("")
    stopper = StopFilter(stops)
    sent = [one for event in events for one in stopper.take([event])] + stopper.close()
    merged = list[Event | str]()
    for one in sent:
        if isinstance(one, ContentDelta) and merged and isinstance(merged[-1], str):
            merged[-1] += one.text
        else:
            merged.append(one.text if isinstance(one, ContentDelta) else one)
    assert merged == (wanted if stopped is not None else wanted[:-1])
    assert stopper.found == stopped
    assert stopper.take([ContentDelta("more")]) == ([ContentDelta("more")] if not stopped else [])


def test_a_stop_text_is_prepared_once(monkeypatch: pytest.MonkeyPatch):
    made = list[str]()
    scan = stopping._Scan

    def note(stop: str) -> Any:
        made.append(stop)
        return scan(stop)

    monkeypatch.setattr(stopping, "_Scan", note)
    stopper = StopFilter(("ab", "cd"))
    for number in range(3):
        stopper.take([ContentDelta("a"), CallOpened(number, "f"), ContentDelta("b")])
    assert made == ["ab", "cd"]
    assert stopper.found is None


def test_no_more_is_held_back_than_has_to_be():
    stopper = StopFilter(("abac", "cd"))
    steps = ["x", "a", "b", "a", "b", "a", "x", "c", "c", "d"]
    sent = [content(stopper.take([ContentDelta(step)])) for step in steps]
    assert sent == ["x", "", "", "", "ab", "", "abax", "", "c", ""]
    assert stopper.found == "cd"


def test_tokens_are_told_of_in_order_and_only_up_to_the_stop_text():
    def token(number: int) -> TokenDrawn:
        return TokenDrawn(number, b"")

    stopper = StopFilter(("END",))
    assert stopper.take([token(0), ContentDelta("x")]) == [token(0), ContentDelta("x")]
    assert stopper.take([token(1), ContentDelta("yE")]) == [token(1), ContentDelta("y")]
    assert stopper.take([token(2)]) == []
    assert stopper.take([token(3), ContentDelta("N")]) == []
    released = [ContentDelta("E"), token(2), token(3), ContentDelta("N"), token(4)]
    assert stopper.take([token(4), ContentDelta("z")]) == [*released, ContentDelta("z")]
    assert stopper.take([token(5), ContentDelta("E"), token(6)]) == []
    assert stopper.take([token(7), ContentDelta("ND")]) == []
    assert stopper.close() == []


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        ("", "a stop text is empty"),
        (["a", ""], "a stop text is empty"),
        (5, "stop is 5"),
        ([5], r"stop is \[5\]"),
        ({"a": 1}, "stop is {'a': 1}"),
        ([str(n) for n in range(17)], "there are 17 stop texts, the limit is 16"),
        (
            ["a", "x" * (MAX_CHARACTERS + 1)],
            "a stop text has 1,001 characters, the limit is 1,000",
        ),
    ],
)
def test_what_cannot_be_a_stop_text(stop: Any, message: str):
    with pytest.raises(RequestError, match=message) as caught:
        read_stops(stop)
    assert caught.value.where == "/stop"
    with scripted("Hi") as model, pytest.raises(RequestError, match=message):
        model.call("Hi", stop=stop)


def test_stop_texts_in_their_forms():
    assert read_stops(None) == read_stops([]) == read_stops(()) == ()
    assert read_stops("abc") == ("abc",)
    assert read_stops("é" * MAX_CHARACTERS) == ("é" * MAX_CHARACTERS,)
    options = read_call_options({"stop": ["a", "b"]}, DecodeOptions())
    assert options.decode.stops == ("a", "b")


@pytest.mark.parametrize("max_tokens", [100, 13])
def test_a_reply_is_stopped(max_tokens: int):
    with scripted("One. Two. Three. Four.") as model:
        options: Any = {"stop": ["Four", "Th"], "sampling": GREEDY, "max_tokens": max_tokens}
        reply = model.call("Hi", **options)
        assert (reply.content, reply.finish_reason) == ("One. Two. ", "stop")
        assert reply.stop_sequence == "Th"
        assert reply.text == "One. Two. Th"
        assert reply.usage.completion_tokens == 12
        assert reply.to_json()["stop_sequence"] == "Th"
        stream = model.stream("Hi", **options)
        assert content(list(stream)) == reply.content
        assert stream.result == model.call("Hi", **options)
        free = model.call("Hi", sampling=GREEDY, stop="Five")
        assert (free.content, free.stop_sequence) == ("One. Two. Three. Four.", None)
        assert "stop_sequence" not in free.to_json()


def test_what_was_held_back_is_released_in_the_end():
    with scripted("One. Two.") as model:
        for most, text in ((8, "One. Two"), (100, "One. Two.")):
            stream = model.stream("Hi", stop=["Two..", ".."], sampling=GREEDY, max_tokens=most)
            assert content(list(stream)) == text == stream.result.content
        undecided = model.call("Hi", stop=["One. Two. x", "Tw"], sampling=GREEDY, max_tokens=8)
        assert (undecided.content, undecided.stop_sequence) == ("One. ", "Tw")
        assert undecided.finish_reason == "stop"


def test_reasoning_and_arguments_are_never_stopped():
    call = hermes_call("write", '{"text": "STOP"}')
    with scripted(f"<think>\nHm, STOP.\n</think>\n\nWell. {call}", source=OPEN) as model:
        stream = model.stream("Hi", [WRITE], stop=["STOP", "tool_call"], sampling=GREEDY)
        events = list(stream)
        reply = stream.result
    assert "STOP" in "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    assert "STOP" in "".join(e.text for e in events if isinstance(e, ArgumentsDelta))
    assert reply.reasoning.startswith("Hm, STOP.")
    assert [c.arguments for c in reply.calls] == [{"text": "STOP"}]
    assert (reply.finish_reason, reply.stop_sequence) == ("tool_calls", None)


def test_a_stop_text_in_front_of_a_call():
    with scripted(f"Well. STOP {hermes_call('ping')}") as model:
        reply = model.call("Hi", [PING], stop="STOP", sampling=GREEDY)
        assert (reply.content, reply.calls, reply.finish_reason) == ("Well. ", (), "stop")
        assert reply.usage.completion_tokens == len("Well. STOP")


def test_a_turn_that_was_stopped_is_not_taken_over(monkeypatch: pytest.MonkeyPatch):
    with scripted("One. Two.") as model:
        kept: list[Any] = []
        monkeypatch.setattr(model.compiler.prompts, "keep", lambda *given: kept.append(given))
        model.call("Hi", stop="Two", sampling=GREEDY)
        assert kept == []
        model.call("Hi", stop="Three", sampling=GREEDY)
        assert len(kept) == 1


def test_an_answer_that_was_stopped():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    answer = {"type": "json_schema", "json_schema": {"schema": schema}}
    with scripted('{"a": "one STOP"}') as model:
        reply = model.call("Hi", response_format=answer, stop="STOP", sampling=GREEDY)
        assert (reply.content, reply.parsed) == ('{"a": "one ', None)
        assert reply.finish_reason == "stop"
        with pytest.raises(ReplyError, match="the stop text 'STOP' cut off the value"):
            model.generate("Hi", schema=schema, stop="STOP", sampling=GREEDY)


def test_the_ending_of_a_turn_whose_tokens_run_out_is_stopped_too():
    """The tokens run out inside the text; what closes the answer holds the stop text."""
    properties = {"a": {"type": "string"}, "z": {"const": "STOP"}}
    schema = {"type": "object", "properties": properties, "required": ["a", "z"]}
    answer = {"type": "json_schema", "json_schema": {"schema": schema}}
    with scripted('{"a": "' + "".join(map(str, range(50)))) as model:
        options: Any = {"response_format": answer, "sampling": GREEDY, "max_tokens": 50}
        cut = model.call("Hi", **options)
        assert cut.finish_reason == "length"
        assert cut.parsed["z"] == "STOP"
        stopped = model.call("Hi", stop="STOP", **options)
        assert stopped.content == cut.content.partition("STOP")[0]
        assert (stopped.finish_reason, stopped.stop_sequence) == ("stop", "STOP")


def test_a_held_answer_is_stopped_when_it_has_passed():
    """A keyword that is only checked: nothing of the answer is sent before that."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^(?!()\\1[-_])"}},
        "required": ["a"],
    }
    answer = {"type": "json_schema", "json_schema": {"schema": schema}}
    with wishing('{"a": "-bad STOP"}', '{"a": "good STOP"}') as model:
        stream = model.stream("Hi", response_format=answer, stop="STOP", sampling=GREEDY)
        assert content(list(stream)) == stream.result.content == '{"a": "good '
        assert stream.result.usage.discarded_tokens
        assert stream.result.stop_sequence == "STOP"


def test_a_value_that_is_written_again_behind_a_text_that_was_held_back():
    host = {"type": "string", "pattern": "^(?!()\\1[-_])"}
    connect = tool("connect", {"name": {"type": "string"}, "host": host})
    calls = [
        hermes_call("connect", f'{{"name": "STOP", "host": "{host}"}}') for host in ("-x", "y")
    ]
    texts = [f"Well. STO{call}" for call in calls]
    with wishing(*texts) as model:
        stream = model.stream("Hi", [connect], stop="STOP", sampling=GREEDY)
        events = list(stream)
        reply = stream.result
        assert reply.usage.discarded_tokens
        assert collect(events).content == reply.content == "Well. STO"
        told = "".join(e.text for e in events if isinstance(e, ArgumentsDelta))
        assert told == '{"name": "STOP", "host": "y"}'
        assert [c.arguments["host"] for c in reply.calls] == ["y"]
