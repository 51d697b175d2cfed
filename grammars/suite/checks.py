"""The checks of the suite: properties of every parser of tool calls."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from grammars.suite.changes import ChangeKind
from grammars.suite.corners import list_cuts, list_edits, list_surrounded, list_truncations
from grammars.suite.draws import Draws, find_tags
from grammars.suite.parser_output import Reading, as_reading
from grammars.suite.reading import (
    CheckedParser,
    ParserFailure,
    WholeParser,
    are_same_calls,
    find_lost,
    is_same,
)
from grammars.suite.strategies import (
    TEXTS,
    WORDS,
    Example,
    Written,
    chunkings,
    habits,
    make_tool,
    mutations,
    truncations,
    write,
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
    ToolCall,
    Turn,
)
from grammars.wire.format import MIN_TAG_LENGTH, Format

REMARKS = (
    "Sure, I can do that.",
    "I would call get_weather with Paris.",
    'get_weather(city="zorn")',
    'The answer is {"city": "zorn", "days": [1, 2]}.',
    'So:\n\n```json\n{"note": "kvelp"}\n```',
    "1 < 2 & <b>yquil</b> </b> <br/>",
    "f(x) = {y | y > 0}",
    "It's [woxam](jinqa), and 'write' too.",
)

MAX_EDITED = 12
"""Turns to which each habit is applied in each run."""


Examples: TypeAlias = Callable[[Draws], Iterator[Example]]
Judge: TypeAlias = Callable[[CheckedParser, Example], None]


@dataclass(frozen=True)
class SuiteCheck:
    """A property of parsers."""

    name: str
    about: str  # what holds, in a sentence
    # raises a `ParserFailure` if a parser does not have it
    judge: Judge
    examples: Examples
    can_shrink: bool = True  # other examples than these can be judged, too

    def find_failure(self, subject: CheckedParser, example: Example) -> ParserFailure | None:
        """Returns how a parser fails on an example; None: it passes, or this does not apply."""
        try:
            self.judge(subject, example)
        except ParserFailure as e:
            e.check = self.name
            return e
        return None


def check_of(examples: Examples) -> Callable[[Judge], SuiteCheck]:
    """Makes a check of a function that judges examples."""
    return lambda judge: SuiteCheck(
        judge.__name__, inspect.cleandoc(judge.__doc__ or ""), judge, examples
    )


def make_whole(written: Written) -> Example:
    return Example(written, (written.text,))


def _list_plain(draws: Draws) -> Iterator[Example]:
    yield from map(make_whole, draws.thin_out(draws.plain_corners))
    yield from map(make_whole, draws.plain)


def _list_tagged(draws: Draws) -> Iterator[Example]:
    yield from map(make_whole, draws.thin_out(draws.tagged_corners))
    yield from map(make_whole, draws.tagged)


@check_of(_list_plain)
def reads_back(subject: CheckedParser, example: Example) -> None:
    """A written turn is read back with the same meaning and with typed arguments."""
    if not find_tags(example.written, subject.format):
        compare_reading(subject, example.written)


@check_of(_list_tagged)
def reads_tags_in_values(subject: CheckedParser, example: Example) -> None:
    """Arguments may contain the tags of the format, as text."""
    tags = find_tags(example.written, subject.format)
    plain = replace_in_values(example.written, dict.fromkeys(tags, WORDS[1]), subject.format)
    # What is read wrongly without tags, too, is another fault.
    if tags and plain is not None and reads(subject, plain):
        compare_reading(subject, example.written)


def reads(subject: CheckedParser, written: Written) -> bool:
    try:
        compare_reading(subject, written)
    except ParserFailure:
        return False
    return True


def compare_reading(subject: CheckedParser, written: Written) -> None:
    """Reads a turn; raises a `ParserFailure` if that differs from what was meant."""
    tools, text = written.tools, written.text
    got, events = subject.read(tools, text)
    wanted = as_reading(written.turn, [])
    fault = _find_miscount(events)
    if fault and not is_same(got, wanted, subject.claims):
        raise ParserFailure(fault, [text], tools=tools, wanted=wanted, got=list(events))
    subject.compare(got, wanted, [text], tools)


def _list_cuts(draws: Draws) -> Iterator[Example]:
    if draws.subject.is_push:
        yield from draws.thin_out(list(list_cuts(draws.plain_corners)))
        yield from _draw(draws, draws.plain, lambda written: chunkings(written.text))


def _draw(
    draws: Draws, turns: Sequence[Written], cut: Callable[[Written], SearchStrategy[list[str]]]
) -> list[Example]:
    if not turns:
        return []
    strategy = st.sampled_from(turns).flatmap(
        lambda written: cut(written).map(make_whole(written).with_pieces)
    )
    return draws.draw(strategy)


def _list_turns(draws: Draws) -> list[Written]:
    return [*draws.plain, *draws.tagged] if draws.subject.claims.damage else draws.plain


@check_of(_list_cuts)
def streams_the_same(subject: CheckedParser, example: Example) -> None:
    """Reading a text in pieces gives the same as reading it whole, if the parser has both ways."""
    if isinstance(subject.factory(()), WholeParser):
        tools, pieces = example.written.tools, example.pieces
        wanted, _ = subject.read(tools, example.text)
        got, _ = subject.listen(tools, pieces)
        subject.compare(got, wanted, pieces, tools, in_pieces=True)


def _list_any_cuts(draws: Draws) -> Iterator[Example]:
    yield from _list_cuts(draws)
    if draws.subject.claims.damage and draws.subject.is_push:
        texts = draws.subject.format.texts

        def damage(written: Written) -> SearchStrategy[list[str]]:
            text = written.text
            damaged = st.just(text) | mutations(text, texts) | habits(text, texts)
            return damaged.flatmap(chunkings)

        yield from _draw(draws, _list_turns(draws), damage)


@check_of(_list_any_cuts)
def same_in_every_cut(subject: CheckedParser, example: Example) -> None:
    """The result does not depend on how a text is cut into chunks, whatever the text."""
    if not subject.is_push:
        return
    tools, pieces, text = example.written.tools, example.pieces, example.text
    try:
        whole, _ = subject.listen(tools, [text])
    except ParserFailure:
        if len(pieces) < 2:
            raise
        return  # it fails on the whole text, whatever the cut
    if text == example.written.text:
        meant = as_reading(example.written.turn, [])
        subject.compare(whole, meant, [text], tools, in_pieces=True)
    got, _ = subject.listen(tools, pieces)
    subject.compare(got, whole, pieces, tools, in_pieces=True)


def _list_truncated(draws: Draws) -> Iterator[Example]:
    yield from draws.thin_out(list(list_truncations(draws.plain_corners, draws.subject.format)))
    yield from _draw(draws, _list_turns(draws), lambda one: truncations(one.text).map(_as_list))


def _as_list(text: str) -> list[str]:
    return [text]


@check_of(_list_truncated)
def survives_the_end(subject: CheckedParser, example: Example) -> None:
    """A text that is cut short gives its complete calls, and nothing is lost."""
    written, text = example.written, example.text
    got = _read_damaged(subject, written.tools, text)
    if got is None:
        return
    read = [call for call in got.calls if subject.claims.damage or isinstance(call[1], dict)]
    wanted = as_reading(written.turn, []).calls[: len(read)]
    if not are_same_calls(read, wanted, subject.claims):
        message = "the parser reports calls that were not written like that"
        raise ParserFailure(message, [text], tools=written.tools, wanted=list(wanted), got=read)
    message = find_lost(text, got)
    if message and subject.claims.damage:
        raise ParserFailure(message, [text], tools=written.tools, got=got)


def _list_surrounded(draws: Draws) -> Iterator[Example]:
    if draws.subject.claims.content:
        turns = list_surrounded(draws.subject.format, draws.plain_corners)
        yield from map(make_whole, islice(turns, MAX_EDITED))


@check_of(_list_surrounded)
def reads_text_around_calls(subject: CheckedParser, example: Example) -> None:
    """Text behind a call and between calls is content, and does not change the calls."""
    written, format = example.written, subject.format
    turn = written.turn
    plain = write(replace(turn, content=""), format, written.tools)
    usual = write(turn, format, written.tools)
    # What is read wrongly without that text, too, is another fault.
    if usual == written or not turn.content or plain is None or not reads(subject, plain):
        return
    # Where content and calls exclude each other, a text with both is a damaged one.
    if usual is None and not subject.claims.damage:
        return
    got, _ = subject.read(written.tools, written.text)
    wanted = as_reading(written.turn, [])
    # Parsers differ in the white space that they leave out between two texts.
    if got.content.split() == wanted.content.split():
        got = replace(got, content=wanted.content)
    subject.compare(got, wanted, [written.text], written.tools)


def _list_edited(draws: Draws) -> Iterator[Example]:
    format = draws.subject.format
    yield from draws.thin_out(list(list_edits(draws.plain_corners[:MAX_EDITED], format)))

    def edit(written: Written) -> SearchStrategy[list[str]]:
        text, texts = written.text, format.texts
        return (mutations(text, texts) | habits(text, texts)).map(_as_list)

    yield from _draw(draws, _list_turns(draws), edit)


@check_of(_list_edited)
def survives_edits(subject: CheckedParser, example: Example) -> None:
    """A damaged text is read; nothing is lost, and nothing is reported twice."""
    tools, text = example.written.tools, example.text
    got = _read_damaged(subject, tools, text)
    if got is None or not subject.claims.damage:
        return
    if message := find_lost(text, got, damaged=True, tags=subject.format.structure):
        raise ParserFailure(message, [text], tools=tools, got=got)


def _read_damaged(subject: CheckedParser, tools: Sequence[Tool], text: str) -> Reading | None:
    """Reads a damaged text; None: it is refused, and `damage` is not claimed."""
    try:
        return subject.read(tools, text)[0]
    except ParserFailure as e:
        if e.is_refusal and not subject.claims.damage:
            return None
        raise


def _list_remarks(draws: Draws) -> Iterator[Example]:
    offered = draws.subject.tools or (make_tool("get_weather", {"type": "object"}),)
    parts = st.lists(st.sampled_from(REMARKS) | TEXTS, min_size=1, max_size=3)
    drawn = draws.draw(parts.map(lambda remarks: " ".join(["Well:", *remarks]).strip()))
    for remark in (*REMARKS, *drawn):
        written = write(Turn(remark), draws.subject.format, offered)
        if written is not None:
            yield make_whole(written)


@check_of(_list_remarks)
def invents_nothing(subject: CheckedParser, example: Example) -> None:
    """Text without tags of the format is content, all of it, and gives no call."""
    turn, tools = example.written.turn, example.written.tools
    # Words and punctuation of the structure, which are no tags, may occur in content.
    texts = [text.strip() for text in subject.format.structure]
    if turn.calls or any(len(tag) >= MIN_TAG_LENGTH and tag in turn.content for tag in texts):
        return
    got, _ = subject.read(tools, example.text)
    subject.compare(got, as_reading(turn, []), [example.text], tools)


@check_of(_list_cuts)
def streams_append(subject: CheckedParser, example: Example) -> None:
    """The events of a stream add up to what is read; each call comes once, in order."""
    if not subject.is_push:
        return
    tools, pieces = example.written.tools, example.pieces
    got, events = subject.listen(tools, pieces)
    fault = _find_fault(events, got) if events else None
    if fault is None and _comes_late(example.written, events):
        fault = ChangeKind.CALLS_LATE
    if fault:
        raise ParserFailure(
            fault, pieces, tools=tools, in_pieces=True, wanted=got, got=list(events)
        )


CHECKS: tuple[SuiteCheck, ...] = (
    reads_back,
    reads_tags_in_values,
    invents_nothing,
    reads_text_around_calls,
    same_in_every_cut,
    streams_the_same,
    streams_append,
    survives_the_end,
    survives_edits,
)


def replace_in_values(written: Written, texts: Mapping[str, str], format: Format) -> Written | None:
    """Returns a turn with other texts in its arguments; None: the format cannot write it."""
    calls: list[ToolCall] = []
    for call in written.turn.calls:
        spelled = json.dumps(call.arguments)
        for text, other in texts.items():
            spelled = spelled.replace(json.dumps(text)[1:-1], other)
        calls.append(replace(call, arguments=json.loads(spelled)))
    return write(replace(written.turn, calls=tuple(calls)), format, written.tools)


def _find_fault(events: Sequence[Event], got: Reading) -> str | None:
    """Describes an error in the events of a turn; None: they add up to what was read."""
    content = reasoning = ""
    opened: list[int] = []
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
            case CallRead() | CallCut():
                pass
    if (content, reasoning) != (got.content, got.reasoning):
        return "the deltas do not add up to the text"
    if fault := _find_miscount(events):
        return fault
    for index in arguments:
        if index not in opened:
            return "there are arguments of a call that has no name"
    for index in opened:
        if index in arguments and not _spells(arguments[index], got.calls[index][1]):
            return "the arguments of a call add up to different arguments"
    return None


def _find_miscount(events: Sequence[Event]) -> str | None:
    opened = [event.index for event in events if isinstance(event, CallOpened)]
    read = [event.index for event in events if isinstance(event, CallRead)]
    if len(set(opened)) < len(opened):
        return ChangeKind.SHARED_INDEX
    if opened != list(range(len(opened))) or read != list(range(len(read))):
        return ChangeKind.WRONG_INDEX
    return None


def _comes_late(written: Written, events: Sequence[Event]) -> bool:
    """Returns whether content comes after a call that stands behind it in the text."""
    turn = written.turn
    if not turn.content or not turn.calls:
        return False
    is_before = written.text.find(turn.content) < written.text.find(turn.calls[0].name)
    opened = [i for i, event in enumerate(events) if isinstance(event, CallOpened)]
    texts = [i for i, event in enumerate(events) if isinstance(event, ContentDelta)]
    return is_before and bool(opened) and any(i > opened[0] for i in texts)


def _spells(text: str, value: object) -> bool:
    try:
        return json.dumps(json.loads(text), sort_keys=True) == json.dumps(value, sort_keys=True)
    except ValueError:
        return False
