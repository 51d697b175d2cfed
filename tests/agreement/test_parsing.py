"""The parser reads every text, in every cut, and loses none of it."""

import json
import random
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grammars.parse.parser import Parser, collect, parse
from grammars.schema.numbers import are_equal
from grammars.turn import ArgumentsDelta, CallOpened, CallRead, Event, Start, State, Tool, Turn
from grammars.wire.format import ContentPlace, Format
from tests.agreement.case_checks import by_name, spell
from tests.agreement.chosen_formats import EACH, SCALE, each, is_plain
from tests.text_strategies import FRAGMENTS, TEXTS
from tests.turn_strategies import Case, cases, chunkings, mutate, seeds, states

MODES = pytest.mark.parametrize("recover", [False, True], ids=["strict", "recover"])
QUIET = settings(suppress_health_check=list(HealthCheck), max_examples=8 * SCALE)


def read_in_pieces(
    pieces: list[str], format: Format, tools: tuple[Tool, ...], state: State, recover: bool
) -> Turn:
    parser = Parser(format, tools, state, recover=recover)
    events: list[Event] = [event for piece in pieces for event in parser.feed(piece)]
    return collect([*events, *parser.close()])


def squeeze(text: str) -> str:
    return "".join(text.split())


def without_tags(text: str, format: Format, state: State, *, recover: bool = False) -> str:
    """The text without the tags of the reasoning block that stands at its start; in recovery, also
    where the prompt has closed one, and without strays."""
    block = format.reasoning
    if block is None:
        return text
    if recover and format.strays:
        for tag in (block.opener.text, block.closer.text, *format.strays):
            text = text.replace(tag, "")
        return text
    opens_again = text.removeprefix(state.pad).lstrip().startswith(block.opener.text)
    if recover and state.start is Start.CLOSED and opens_again:
        state = State()
    is_open = state.start is Start.OPEN
    again = state.start is Start.CLOSED or (block.starts_closed and state.start is Start.PLAIN)
    if again and text.lstrip().startswith(block.closer.text):
        return text.replace(block.closer.text, "", 1)
    if state.start is Start.PLAIN and text.lstrip().startswith(block.opener.text):
        text = text.replace(block.opener.text, "", 1)
        is_open = True
    elif state.start is Start.CLOSED:  # some models close it once more
        is_open = text.removeprefix(state.pad).lstrip().startswith(block.closer.text)
    return text.replace(block.closer.text, "", 1) if is_open else text


def assert_complete(turn: Turn, text: str, format: Format, state: State, *, recover: bool) -> None:
    """A turn without calls holds all of the text but white space and the tags of its reasoning;
    of formats that write content as it is."""
    if not turn.calls and is_plain(format):
        read = turn.reasoning + turn.content + turn.unfinished
        tagless = without_tags(text, format, state, recover=recover)
        assert squeeze(read) == squeeze(tagless)


@EACH
@MODES
@QUIET
@given(data=st.data())
def test_a_turn_reads_the_same_in_every_cut(name: str, recover: bool, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name)))
    text = case.text
    if data.draw(st.booleans()):
        text = mutate(text, random.Random(data.draw(seeds())))
    whole = parse(text, case.format, case.tools, case.state, recover=recover)
    for pieces in (data.draw(chunkings(text)), list(text)):
        read = read_in_pieces(pieces, case.format, case.tools, case.state, recover)
        assert spell(read) == spell(whole)
    assert_complete(whole, text, case.format, case.state, recover=recover)


@EACH
@MODES
@QUIET
@given(text=st.text() | st.lists(TEXTS | st.sampled_from(FRAGMENTS)).map("".join), data=st.data())
def test_any_text_is_read(name: str, recover: bool, text: str, data: st.DataObject) -> None:
    state = data.draw(states(by_name(name)))
    turn = parse(text, by_name(name), (), state, recover=recover)
    assert_complete(turn, text, by_name(name), state, recover=recover)
    assert spell(read_in_pieces(list(text), by_name(name), (), state, recover)) == spell(turn)


@each(is_plain)
@settings(QUIET, max_examples=5 * SCALE)
@given(data=st.data())
def test_a_cut_turn_delivers_no_cut_call(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name)))
    before = 0
    for at in range(len(case.text)):
        read = parse(case.text[:at], case.format, case.tools, case.state)
        assert spell_calls(read) == spell_calls(case.turn)[: len(read.calls)]
        assert len(read.calls) >= before
        before = len(read.calls)
        assert_accounted(read, case, case.text[:at])


def spell_calls(turn: Turn) -> list[object]:
    return [(c.name, json.dumps(c.arguments, sort_keys=True)) for c in turn.calls]


def assert_accounted(read: Turn, case: Case, text: str) -> None:
    """What is not in a call that was delivered is reasoning, content or unfinished."""
    opener = case.format.opener.text if case.format.opener else "{"
    rest = without_tags(text, case.format, case.state)
    is_said = bool(read.calls) and case.place is ContentPlace.BEFORE
    said = case.turn.content if is_said else ""
    assert read.content.startswith(said)
    head = read.reasoning + said
    tail = read.content[len(said) :] + read.unfinished
    assert squeeze(rest).startswith(squeeze(head))
    assert squeeze(rest).endswith(squeeze(tail))
    called = squeeze(rest)[len(squeeze(head)) : len(squeeze(rest)) - len(squeeze(tail))]
    assert called.startswith(squeeze(opener)) == bool(read.calls)
    assert bool(called) == bool(read.calls)
    closing = "".join(node.text for node in case.format.closing)
    cut_closing = closing.lstrip().startswith(read.unfinished.lstrip())
    assert len(read.calls) < len(case.turn.calls) or cut_closing


@EACH
@QUIET
@given(data=st.data())
def test_truncations_are_read_in_recovery_too(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name)))
    text = case.text[: data.draw(st.integers(0, len(case.text)))]
    turn = parse(text, case.format, case.tools, case.state, recover=True)
    assert not turn.unfinished
    assert spell_calls(turn) == spell_calls(case.turn)[: len(turn.calls)]
    assert_complete(turn, text, case.format, case.state, recover=True)


@EACH
@QUIET
@given(data=st.data())
def test_arguments_stream_as_the_json_that_is_read(name: str, data: st.DataObject) -> None:
    drawn = data.draw(cases(by_name(name)))
    case = replace(drawn, text=spell_numbers(drawn.text)) if data.draw(st.booleans()) else drawn
    pieces = data.draw(chunkings(case.text))
    parser = Parser(case.format, case.tools, case.state, stream=True)
    events = [event for piece in [*pieces, ""] for event in parser.feed(piece)] + parser.close()
    assert spell(collect(events)) == spell(parse(case.text, case.format, case.tools, case.state))
    written: dict[int, str] = {}
    for event in events:
        match event:
            case CallOpened(index, opened):
                assert index == len(written)
                assert opened == case.turn.calls[index].name
                written[index] = ""
            case ArgumentsDelta(index, text):
                assert index == len(written) - 1
                written[index] += text
            case CallRead(index, call):
                if case.text == drawn.text:
                    assert json.dumps(json.loads(written[index])) == json.dumps(call.arguments)
                elif call.valid:  # what no mask writes streams as it is written: 2.0, read as 2
                    assert are_equal(json.loads(written[index]), call.arguments)
            case _:
                pass
    assert len(written) == len(case.turn.calls)
    for number in range(len(pieces)):  # what is certain is told at once
        assert_tells_at_once(case, "".join(pieces[: number + 1]))


def spell_numbers(text: str) -> str:
    """The text with a point in whole numbers, as models write them where an integer is wanted."""
    return re.sub(r"(?<=[:\[,])( ?-?[0-9]{1,9})(?=[,\]}])", r"\1.0", text)


def assert_tells_at_once(case: Case, text: str) -> None:
    """The arguments that a cut turn has told of are the beginning of all of them."""
    parser = Parser(case.format, case.tools, case.state, stream=True)
    events = parser.feed(text)
    told = [e for e in events if isinstance(e, ArgumentsDelta)]
    whole = Parser(case.format, case.tools, case.state, stream=True)
    everything = [e for e in whole.feed(case.text) if isinstance(e, ArgumentsDelta)]
    assert "".join(e.text for e in everything).startswith("".join(e.text for e in told))
