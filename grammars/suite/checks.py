"""The checks of the suite: properties of every parser of tool calls."""

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from grammars.suite.parser_output import Reading, as_reading
from grammars.suite.reading import (
    CheckedParser,
    ParserFailure,
    WholeParser,
    are_same_calls,
    find_lost,
    is_push,
    is_same,
    listen,
    read_whole,
)
from grammars.suite.strategies import (
    TEXTS,
    Written,
    chunkings,
    habits,
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
    Tool,
)
from grammars.wire.format import MIN_TAG_LENGTH, Format, TaggedArguments

Check: TypeAlias = Callable[[CheckedParser, DataObject], None]

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


def reads_back(subject: CheckedParser, data: DataObject) -> None:
    """A written turn is read back with the same meaning and with typed arguments."""
    compare_reading(subject, data.draw(written_turns(subject, tags=False)), check="reads_back")


def reads_tags_in_values(subject: CheckedParser, data: DataObject) -> None:
    """Arguments may contain the tags of the format, as text."""
    compare_reading(subject, data.draw(written_turns(subject)), check="reads_tags_in_values")


def compare_reading(subject: CheckedParser, written: Written, *, check: str) -> None:
    """Reads a turn, and compares what the parser reads with what was meant.

    Raises:
        ParserFailure: they differ.
    """
    got = read_whole(subject.factory, written.tools, written.text, check=check)
    wanted = as_reading(written.turn, [])
    if not is_same(got, wanted, subject.claims):
        message = "the parser reads something else"
        raise ParserFailure(
            check, message, [written.text], tools=written.tools, wanted=wanted, got=got
        )


def streams_the_same(subject: CheckedParser, data: DataObject) -> None:
    """Reading a text in pieces gives the same as reading it whole, if the parser has both ways."""
    if not isinstance(subject.factory(()), WholeParser):
        return
    check = "streams_the_same"
    written = data.draw(written_turns(subject, tags=False))
    pieces = data.draw(chunkings(written.text))
    wanted = read_whole(subject.factory, written.tools, written.text, check=check)
    got, _ = listen(subject.factory, written.tools, pieces, check=check)
    _compare_pieces(subject, check, written.tools, pieces, wanted=wanted, got=got)


def same_in_every_cut(subject: CheckedParser, data: DataObject) -> None:
    """The result does not depend on how a text is cut into chunks, whatever the text."""
    if not is_push(subject.factory):
        return
    check = "same_in_every_cut"
    written = data.draw(written_turns(subject, tags=subject.claims.damage))
    text, texts = written.text, subject.format.texts
    if subject.claims.damage:
        text = data.draw(st.just(text) | mutations(text, texts) | habits(text, texts))
    pieces = data.draw(chunkings(text))
    wanted, _ = listen(subject.factory, written.tools, [text], check=check)
    got, _ = listen(subject.factory, written.tools, pieces, check=check)
    _compare_pieces(subject, check, written.tools, pieces, wanted=wanted, got=got)


def _compare_pieces(
    subject: CheckedParser,
    check: str,
    tools: Sequence[Tool],
    pieces: Sequence[str],
    *,
    wanted: Reading,
    got: Reading,
) -> None:
    if not is_same(got, wanted, subject.claims):
        message = "in pieces, the parser reads something else"
        raise ParserFailure(
            check, message, pieces, tools=tools, in_pieces=True, wanted=wanted, got=got
        )


def survives_the_end(subject: CheckedParser, data: DataObject) -> None:
    """A text that is cut short gives its complete calls, and nothing is lost."""
    check = "survives_the_end"
    written = data.draw(written_turns(subject, tags=subject.claims.damage))
    text = data.draw(truncations(written.text))
    got = _read_damaged(subject, written.tools, text, check=check)
    if got is None:
        return
    read = [call for call in got.calls if subject.claims.damage or isinstance(call[1], dict)]
    wanted = as_reading(written.turn, []).calls[: len(read)]
    if not are_same_calls(read, wanted, subject.claims):
        message = "the parser reports calls that were not written like that"
        raise ParserFailure(
            check, message, [text], tools=written.tools, wanted=list(wanted), got=read
        )
    message = find_lost(text, got)
    if message and subject.claims.damage:
        raise ParserFailure(check, message, [text], tools=written.tools, got=got)


def survives_edits(subject: CheckedParser, data: DataObject) -> None:
    """A damaged text is read; nothing is lost, and nothing is reported twice."""
    check = "survives_edits"
    written = data.draw(written_turns(subject, tags=subject.claims.damage))
    texts = subject.format.texts
    text = data.draw(mutations(written.text, texts) | habits(written.text, texts))
    got = _read_damaged(subject, written.tools, text, check=check)
    if got is None or not subject.claims.damage:
        return
    if message := find_lost(text, got, damaged=True, tags=subject.format.structure):
        raise ParserFailure(check, message, [text], tools=written.tools, got=got)


def _read_damaged(
    subject: CheckedParser, tools: Sequence[Tool], text: str, *, check: str
) -> Reading | None:
    """Reads a damaged text; None: the parser refuses it, which is allowed if it does not claim
    `damage`."""
    try:
        return read_whole(subject.factory, tools, text, check=check)
    except ParserFailure as e:
        if e.is_refusal and not subject.claims.damage:
            return None
        raise


def invents_nothing(subject: CheckedParser, data: DataObject) -> None:
    """Text without tags of the format is content, all of it, and gives no call."""
    check = "invents_nothing"
    offered = data.draw(tools())
    remarks = st.sampled_from(_REMARKS) | TEXTS
    text = " ".join(["Well:", *data.draw(st.lists(remarks, min_size=1, max_size=3))]).strip()
    assume(not any(tag in text for tag in _find_tags(subject.format)))
    got = read_whole(subject.factory, offered, text, check=check)
    wanted = Reading(text)
    if not is_same(got, wanted, subject.claims):
        raise ParserFailure(
            check, "it is plain text", [text], tools=offered, wanted=wanted, got=got
        )


def streams_append(subject: CheckedParser, data: DataObject) -> None:
    """The events of a stream add up to what is read; each call comes once, in order."""
    if not is_push(subject.factory):
        return
    check = "streams_append"
    written = data.draw(written_turns(subject, tags=subject.claims.damage))
    pieces = data.draw(chunkings(written.text))
    got, events = listen(subject.factory, written.tools, pieces, check=check)
    fault = _find_fault(events, got) if events else None
    if fault:
        raise ParserFailure(
            check, fault, pieces, tools=written.tools, in_pieces=True, wanted=got, got=events
        )


CHECKS: tuple[Check, ...] = (
    reads_back,
    reads_tags_in_values,
    streams_the_same,
    same_in_every_cut,
    survives_the_end,
    survives_edits,
    invents_nothing,
    streams_append,
)


def written_turns(subject: CheckedParser, *, tags: bool = True) -> SearchStrategy[Written]:
    """Draws turns with their texts, of the kind that this parser claims to read.

    Args:
        tags: values of arguments may contain the tags of the format.
    """
    is_raw = isinstance(subject.format.hole, TaggedArguments)
    return wire_texts(
        subject.format,
        tags=tags,
        reasoning=subject.claims.reasoning,
        mixed=subject.claims.exact or not is_raw,
    )


def _find_tags(format: Format) -> set[str]:
    """Returns the texts that are structure: tags, but no words or punctuation, which may occur in
    content."""
    texts = map(str.strip, format.structure)
    return {text for text in texts if len(text) >= MIN_TAG_LENGTH}


def _find_fault(events: Sequence[Event], got: Reading) -> str | None:
    """Describes an error in the events of a turn; None: they add up to what was read."""
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
        return "the deltas do not add up to the text"
    if opened != list(range(len(opened))) or read != list(range(len(read))):
        return "the calls are not counted from 0"
    for index in arguments:
        if index not in opened:
            return f"there are arguments of a call {index}, which has no name"
    for index in opened:
        if index in arguments and not _spells(arguments[index], got.calls[index][1]):
            return f"the arguments of call {index} add up to different arguments"
    return None


def _spells(text: str, value: object) -> bool:
    try:
        return json.dumps(json.loads(text), sort_keys=True) == json.dumps(value, sort_keys=True)
    except ValueError:
        return False
