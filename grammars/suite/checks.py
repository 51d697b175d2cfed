"""The checks of the suite: what is true of every parser of tool calls."""

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from grammars.suite.reading import (
    Factory,
    ParserFailure,
    Reading,
    are_same_calls,
    as_reading,
    find_lost,
    is_push,
    is_same,
    listen,
)
from grammars.suite.strategies import (
    TEXTS,
    chunkings,
    mutations,
    tools,
    truncations,
    wire_texts,
)
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    Event,
    ReasoningDelta,
)
from grammars.wire.format import SHORTEST_TAG, Format

Check: TypeAlias = Callable[[Factory, Format, DataObject], None]

_REMARKS = (
    "Sure, I can do that.",
    "I would call get_weather with Paris.",
    'get_weather(city="zorn")',
    'The answer is {"city": "zorn", "days": [1, 2]}.',
    'So:\n\n```json\n{"note": "kvelp"}\n```',
    "1 < 2 & <b>yquil</b> </b> <br/>",
    "f(x) = {y | y > 0}",
    "It's [woxam](jinqa), and 'write' too.",
)


def reads_back(factory: Factory, format: Format, data: DataObject) -> None:
    """What a model writes is read as what it means, its arguments typed."""
    written = data.draw(wire_texts(format))
    got, _ = listen(factory, written.tools, [written.text], check="reads_back")
    wanted = as_reading(written.turn, [])
    if not is_same(got, wanted):
        message = "something else is read"
        raise ParserFailure("reads_back", message, [written.text], wanted=wanted, got=got)


def same_in_every_cut(factory: Factory, format: Format, data: DataObject) -> None:
    """The chunks in which a text arrives do not matter, whatever text it is."""
    if not is_push(factory):
        return
    written = data.draw(wire_texts(format))
    text = data.draw(st.just(written.text) | mutations(written.text, format.texts))
    pieces = data.draw(chunkings(text))
    wanted, _ = listen(factory, written.tools, [text], check="same_in_every_cut")
    got, _ = listen(factory, written.tools, pieces, check="same_in_every_cut")
    if not is_same(got, wanted):
        message = "in pieces, something else is read"
        raise ParserFailure("same_in_every_cut", message, pieces, wanted=wanted, got=got)


def survives_the_end(factory: Factory, format: Format, data: DataObject) -> None:
    """A text that ends too soon gives the calls that are complete, and loses nothing."""
    written = data.draw(wire_texts(format))
    text = data.draw(truncations(written.text))
    got, _ = listen(factory, written.tools, [text], check="survives_the_end")
    wanted = as_reading(written.turn, []).calls[: len(got.calls)]
    read = list(got.calls)
    if not are_same_calls(read, wanted):
        message = "calls are told that were not written like that"
        raise ParserFailure("survives_the_end", message, [text], wanted=list(wanted), got=read)
    if message := find_lost(text, got):
        raise ParserFailure("survives_the_end", message, [text], got=got)


def survives_edits(factory: Factory, format: Format, data: DataObject) -> None:
    """A text that is damaged is read, nothing of it is lost, and nothing told twice."""
    written = data.draw(wire_texts(format))
    text = data.draw(mutations(written.text, format.texts))
    got, _ = listen(factory, written.tools, [text], check="survives_edits")
    if message := find_lost(text, got, damaged=True, tags=format.structure):
        raise ParserFailure("survives_edits", message, [text], got=got)


def invents_nothing(factory: Factory, format: Format, data: DataObject) -> None:
    """Text without the tags of the format is content, all of it, and no call."""
    offered = data.draw(tools())
    remarks = st.sampled_from(_REMARKS) | TEXTS
    text = " ".join(["Well:", *data.draw(st.lists(remarks, min_size=1, max_size=3))]).strip()
    assume(not any(tag in text for tag in _find_tags(format)))
    got, _ = listen(factory, offered, [text], check="invents_nothing")
    wanted = Reading(text)
    if not is_same(got, wanted):
        raise ParserFailure("invents_nothing", "it is plain text", [text], wanted=wanted, got=got)


def streams_append(factory: Factory, format: Format, data: DataObject) -> None:
    """What is told while the text arrives adds up to what is read, each call once, in order."""
    if not is_push(factory):
        return
    written = data.draw(wire_texts(format))
    pieces = data.draw(chunkings(written.text))
    got, events = listen(factory, written.tools, pieces, check="streams_append")
    fault = _find_fault(events, got) if events else None
    if fault:
        raise ParserFailure("streams_append", fault, pieces, wanted=got, got=events)


CHECKS: tuple[Check, ...] = (
    reads_back,
    same_in_every_cut,
    survives_the_end,
    survives_edits,
    invents_nothing,
    streams_append,
)


def _find_tags(format: Format) -> set[str]:
    """The texts that are structure: the tags, but no words or punctuation, which may be content."""
    texts = map(str.strip, format.structure)
    return {text for text in texts if len(text) >= SHORTEST_TAG}


def _find_fault(events: Sequence[Event], got: Reading) -> str | None:
    """The fault of the events of a turn; None if they add up to what was read."""
    content = reasoning = ""
    opened: list[int] = []
    read: list[int] = []
    arguments: dict[int, str] = {}
    for event in events:
        match event:
            case ContentDelta(text):
                content += text
            case ReasoningDelta(text):
                reasoning += text
            case CallOpened(index):
                opened.append(index)
            case ArgumentsDelta(index, text):
                arguments[index] = arguments.get(index, "") + text
            case CallRead(index):
                read.append(index)
            case CallCut():
                pass
    if (content, reasoning) != (got.content, got.reasoning):
        return "the deltas of the text are not the text"
    if opened != list(range(len(opened))) or read != list(range(len(read))):
        return "the calls are not counted from 0"
    for index in opened:
        if index in arguments and not _spells(arguments[index], got.calls[index][1]):
            return f"the arguments of call {index} add up to something else"
    return None


def _spells(text: str, value: object) -> bool:
    try:
        return json.dumps(json.loads(text), sort_keys=True) == json.dumps(value, sort_keys=True)
    except ValueError:
        return False
