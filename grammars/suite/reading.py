"""The reading of a parser, whoever wrote it; readings compared with each other and with a text."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from grammars.parse.parser import collect
from grammars.schema.nodes import Json
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    Event,
    ReasoningDelta,
    Tool,
    Turn,
    decode_arguments,
)

WORDS = ("zorn", "yquil", "woxam", "kvelp", "jinqa")
"""Words that no format writes itself: what goes into a text has to come out of the parser. None
begins with a letter that a backslash in front of it could turn into an escape of JSON."""

KEYS = ("city", "days", "unit", "note", "lines", "options")
"""The keys of all objects in the suite's calls."""

_EVENTS = (ReasoningDelta, ContentDelta, CallOpened, ArgumentsDelta, CallRead, CallCut)


@dataclass(frozen=True)
class Reading:
    """What a parser has read.

    Args:
        content, reasoning: the text of each.
        calls: the name and the arguments of each call; what could not be read as JSON is a text.
        unfinished: the text of a call that was cut short, if it is told apart from content.
    """

    content: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    unfinished: str = ""

    @property
    def texts(self) -> Iterable[str]:
        """All text in it."""
        yield from (self.content, self.reasoning, self.unfinished)
        for name, arguments in self.calls:
            yield name
            yield from _find_texts(arguments)


@runtime_checkable
class PushParser(Protocol):
    """A parser that is fed. What it returns is described at `Factory`."""

    def feed(self, text: str, /) -> object: ...

    def close(self) -> object: ...


Factory: TypeAlias = Callable[[Sequence[Tool]], PushParser | Callable[[str], object]]
"""Makes a parser for the tools on offer (`tool.name`, `tool.schema.source`): a function of the
whole text, or an object with `feed` and `close`. The function and `close` return a `Reading`, a
`Turn` or the rest of the events; `feed` returns the events of `grammars.turn`, or nothing."""


class ParserFailure(AssertionError):  # noqa: N818  what a test reports, and no error of ours
    """A parser did what none should.

    Args:
        check: the name of the check.
        what: what is wrong.
        pieces: what the parser was fed, the smallest text that was found.
        wanted, got: what it should have read, and what it did.
    """

    def __init__(
        self,
        check: str,
        what: str,
        pieces: Sequence[str],
        *,
        wanted: object = None,
        got: object = None,
    ):
        self.check, self.what, self.pieces = check, what, tuple(pieces)
        self.wanted, self.got = wanted, got
        lines = [f"{check}: {what}", f"  text    {self.text!r}"]
        if len(pieces) > 1:
            lines.append(f"  pieces  {list(pieces)!r}")
        if wanted is not None:
            lines.append(f"  wanted  {wanted!r}")
        if got is not None:
            lines.append(f"  got     {got!r}")
        super().__init__("\n".join(lines))

    @property
    def text(self) -> str:
        """All that the parser was fed."""
        return "".join(self.pieces)


def listen(
    factory: Factory, tools: Sequence[Tool], pieces: Sequence[str], *, check: str
) -> tuple[Reading, list[Event]]:
    """Returns what a parser reads, and the events on the way.

    Raises:
        ParserFailure: it raised something.
    """
    events: list[Event] = []
    try:
        parser = factory(tools)
        if isinstance(parser, PushParser):
            for piece in pieces:
                events += _as_events(parser.feed(piece)) or []
            end = parser.close()
        else:
            end = parser("".join(pieces))
        return as_reading(end, events), events
    except Exception as e:  # the parser is not ours: whatever it raises is its failure
        message = f"raised {type(e).__name__}: {str(e)[:200]}"
        raise ParserFailure(check, message, pieces) from e


def is_push(factory: Factory) -> bool:
    """True if the parser is fed in pieces."""
    return isinstance(factory(()), PushParser)


def as_reading(value: object, events: list[Event]) -> Reading:
    """Returns what a parser has returned at the end as a reading; events are added to `events`."""
    if isinstance(value, Reading):
        calls = [(name, decode_arguments(arguments)) for name, arguments in value.calls]
        return replace(value, calls=calls)
    if isinstance(value, Turn):
        calls = [(call.name, call.arguments) for call in value.calls]
        return Reading(value.content, value.reasoning, calls=calls, unfinished=value.unfinished)
    rest = _as_events(value)
    if rest is None:
        raise TypeError(f"neither a Reading nor a Turn nor events: {value!r}")
    events += rest
    return as_reading(collect(events), [])


def _as_events(value: object) -> list[Event] | None:
    if not isinstance(value, list):
        return None
    for event in cast(list[object], value):
        if not isinstance(event, _EVENTS):
            return None
    return cast(list[Event], value)


def is_same(a: Reading, b: Reading) -> bool:
    """True if both say the same. To JSON, 1, 1.0 and true are not the same."""
    return replace(a, calls=()) == replace(b, calls=()) and are_same_calls(a.calls, b.calls)


def are_same_calls(a: Sequence[tuple[str, Any]], b: Sequence[tuple[str, Any]]) -> bool:
    """True if both say the same; the order of members does not matter."""
    return _spell(a) == _spell(b)


def _spell(calls: Sequence[tuple[str, Any]]) -> str:
    return json.dumps(list(calls), sort_keys=True, default=repr)


def _count_words(texts: Iterable[str]) -> Counter[str]:
    """Counts the `WORDS` in texts."""
    # Words have no white space, so none is made of the end of a text and the start of the next.
    return Counter(re.findall("|".join(WORDS), "\n".join(texts)))


def find_lost(
    text: str, reading: Reading, *, damaged: bool = False, tags: Sequence[str] = ()
) -> str | None:
    """Finds a word of the text that does not come out as often as it went in.

    Args:
        text: what was read.
        reading: what came out.
        damaged: calls may hold an argument twice, of which one is read; these are let off.
        tags: what the format writes; what stands on both sides of a tag may become a word.

    Returns:
        The word and its counts in words; None if all words come out.
    """
    before, after = _count_words([text]), _count_words(reading.texts)
    longest_first = sorted(tags, key=len, reverse=True)
    joined = _count_words([re.sub("|".join(map(re.escape, longest_first)), "", text)])
    is_repeated = damaged and _may_repeat(text, reading)
    for word in WORDS:
        times = f"written {before[word]} times, and read {after[word]} times"
        if after[word] > max(before[word], joined[word]) > 0:
            return f"{word!r} is told again: {times}"
        if after[word] < before[word] and not is_repeated:
            return f"{word!r} is lost: {times}"
    return None


def _may_repeat(text: str, reading: Reading) -> bool:
    """True if a call that was read may have had a member twice."""
    members = max(text.count('"arguments"'), text.count('"parameters"'))
    if 0 < len(reading.calls) < members:
        return True
    for key in KEYS:
        holders = sum(key in repr(arguments) for _, arguments in reading.calls)
        if 0 < holders < text.count(key):
            return True
    return False


def _find_texts(value: Json) -> Iterable[str]:
    match value:
        case str():
            yield value
        case list():
            for item in cast(list[Json], value):
                yield from _find_texts(item)
        case dict():
            for key, item in cast(dict[str, Json], value).items():
                yield key
                yield from _find_texts(item)
        case _:  # other values have no text
            pass
