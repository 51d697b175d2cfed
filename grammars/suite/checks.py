"""The checks of the suite: what holds for every parser of tool calls."""

import json
from collections.abc import Callable
from typing import TypeAlias

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from grammars.suite.reading import (
    Factory,
    ParserFailure,
    Reading,
    are_same_calls,
    find_lost,
    is_push,
    is_same,
    listen,
)
from grammars.suite.strategies import (
    TEXTS,
    Written,
    chunkings,
    mutations,
    tools,
    truncations,
    wire_texts,
)
from grammars.turn import ArgumentsDelta, CallOpened, CallRead, ContentDelta, Event, ReasoningDelta
from grammars.wire.format import Format

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
    got, _ = listen(factory, written.tools, [written.text], "reads_back")
    wanted = _meaning(written)
    if not is_same(got, wanted):
        raise ParserFailure("reads_back", "something else is read", [written.text], wanted, got)


def same_in_every_cut(factory: Factory, format: Format, data: DataObject) -> None:
    """The chunks in which a text arrives do not matter, whatever text it is."""
    if not is_push(factory):
        return
    written = data.draw(wire_texts(format))
    text = data.draw(st.just(written.text) | mutations(written.text, format.texts))
    pieces = data.draw(chunkings(text))
    wanted, _ = listen(factory, written.tools, [text], "same_in_every_cut")
    got, _ = listen(factory, written.tools, pieces, "same_in_every_cut")
    if not is_same(got, wanted):
        what = "in pieces, something else is read"
        raise ParserFailure("same_in_every_cut", what, pieces, wanted, got)


def survives_the_end(factory: Factory, format: Format, data: DataObject) -> None:
    """A text that ends too soon gives the calls that are complete, and loses nothing."""
    written = data.draw(wire_texts(format))
    text = data.draw(truncations(written.text))
    got, _ = listen(factory, written.tools, [text], "survives_the_end")
    wanted = _meaning(written).calls[: len(got.calls)]
    if not are_same_calls(got.calls, wanted):
        what = "calls are told that were not written like that"
        raise ParserFailure("survives_the_end", what, [text], list(wanted), list(got.calls))
    if what := find_lost(text, got):
        raise ParserFailure("survives_the_end", what, [text], None, got)


def survives_edits(factory: Factory, format: Format, data: DataObject) -> None:
    """A text that is damaged is read, nothing of it is lost, and nothing told twice."""
    written = data.draw(wire_texts(format))
    text = data.draw(mutations(written.text, format.texts))
    got, _ = listen(factory, written.tools, [text], "survives_edits")
    if what := find_lost(text, got, damaged=True, tags=format.texts):
        raise ParserFailure("survives_edits", what, [text], None, got)


def invents_nothing(factory: Factory, format: Format, data: DataObject) -> None:
    """Text without the tags of the format is content, all of it, and no call."""
    offered = data.draw(tools())
    remarks = st.sampled_from(_REMARKS) | TEXTS
    text = " ".join(["Well:", *data.draw(st.lists(remarks, min_size=1, max_size=3))]).strip()
    assume(not any(part.strip() and part.strip() in text for part in _tags(format)))
    got, _ = listen(factory, offered, [text], "invents_nothing")
    if not is_same(got, wanted := Reading(text)):
        raise ParserFailure("invents_nothing", "it is plain text", [text], wanted, got)


def streams_append(factory: Factory, format: Format, data: DataObject) -> None:
    """What is told while the text arrives adds up to what is read, each call once, in order."""
    if not is_push(factory):
        return
    written = data.draw(wire_texts(format))
    pieces = data.draw(chunkings(written.text))
    got, events = listen(factory, written.tools, pieces, "streams_append")
    if events and (what := _find_fault(events, got)):
        raise ParserFailure("streams_append", what, pieces, got, events)


CHECKS: tuple[Check, ...] = (
    reads_back,
    same_in_every_cut,
    survives_the_end,
    survives_edits,
    invents_nothing,
    streams_append,
)


def _meaning(written: Written) -> Reading:
    turn = written.turn
    return Reading(turn.content, turn.reasoning, [(c.name, c.arguments) for c in turn.calls])


def _tags(format: Format) -> tuple[str, ...]:
    """What tells structure: the tags, not the words and the punctuation that stand in them too."""
    return tuple(t for t in (*format.texts, *format.recovered) if len(t.strip()) > 3)


def _find_fault(events: list[Event], got: Reading) -> str | None:
    """What is wrong with the events of a turn."""
    content = "".join(e.text for e in events if isinstance(e, ContentDelta))
    reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    if (content, reasoning) != (got.content, got.reasoning):
        return "the deltas of the text are not the text"
    opened: list[CallOpened] = [e for e in events if isinstance(e, CallOpened)]
    read = [e.index for e in events if isinstance(e, CallRead)]
    if [e.index for e in opened] != list(range(len(opened))) or read != list(range(len(read))):
        return "the calls are not counted from 0"
    for e in opened:
        parts = [d.text for d in events if isinstance(d, ArgumentsDelta) and d.index == e.index]
        if parts and not _spells("".join(parts), got.calls[e.index][1]):
            return f"the arguments of call {e.index} add up to something else"
    return None


def _spells(text: str, value: object) -> bool:
    try:
        return json.dumps(json.loads(text), sort_keys=True) == json.dumps(value, sort_keys=True)
    except ValueError:
        return False
