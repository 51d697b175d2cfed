"""What the suite hears from a parser, whoever wrote it, and how two readings are compared."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

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


class PushParser(Protocol):
    """A parser that is fed. What it returns is described at `Factory`."""

    def feed(self, text: str, /) -> object: ...

    def close(self) -> object: ...


Factory: TypeAlias = Callable[[Sequence[Tool]], PushParser | Callable[[str], object]]
"""Makes a parser for the tools on offer (`tool.name`, `tool.schema.source`): a function of the
whole text, or an object with `feed` and `close`. The function and `close` return a `Reading`, a
`Turn` or the rest of the events; `feed` returns the events of `grammars.turn`, or nothing."""


class ParserFailure(AssertionError):  # noqa: N818
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
        wanted: object = None,
        got: object = None,
    ):
        self.check, self.what, self.pieces = check, what, tuple(pieces)
        self.wanted, self.got = wanted, got
        lines = [f"{check}: {what}", f"  text    {self.text!r}"]
        lines += [f"  pieces  {list(pieces)!r}"] if len(pieces) > 1 else []
        lines += [f"  wanted  {wanted!r}"] if wanted is not None else []
        lines += [f"  got     {got!r}"] if got is not None else []
        super().__init__("\n".join(lines))

    @property
    def text(self) -> str:
        """All that the parser was fed."""
        return "".join(self.pieces)


def listen(
    factory: Factory, tools: Sequence[Tool], pieces: Sequence[str], check: str
) -> tuple[Reading, list[Event]]:
    """What a parser reads, and the events on the way.

    Raises:
        ParserFailure: it raised something.
    """
    events: list[Event] = []
    try:
        parser = factory(tools)
        if not hasattr(parser, "feed"):
            return as_reading(
                cast(Callable[[str], object], parser)("".join(pieces)), events
            ), events
        push = cast(PushParser, parser)
        for piece in pieces:
            events += _as_events(push.feed(piece)) or []
        return as_reading(push.close(), events), events
    except Exception as e:
        what = f"raised {type(e).__name__}: {str(e)[:200]}"
        raise ParserFailure(check, what, pieces) from e


def is_push(factory: Factory) -> bool:
    """Is the parser one that is fed in pieces?"""
    return hasattr(factory(()), "feed")


def as_reading(value: object, events: list[Event]) -> Reading:
    """A reading of what a parser returned at the end; `events` get what it tells of them."""
    if isinstance(value, Reading):
        return Reading(value.content, value.reasoning, _calls(value.calls), value.unfinished)
    if isinstance(value, Turn):
        calls = [(call.name, call.arguments) for call in value.calls]
        return Reading(value.content, value.reasoning, calls, value.unfinished)
    rest = _as_events(value)
    if rest is None:
        raise TypeError(f"neither a Reading nor a Turn nor events: {value!r}")
    events += rest
    return as_reading(collect(events), [])


def _as_events(value: object) -> list[Event] | None:
    if not isinstance(value, list):
        return None
    events = cast(list[object], value)
    return cast(list[Event], events) if all(isinstance(e, _EVENTS) for e in events) else None


def _calls(calls: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The calls, their arguments decoded where they came as the text of an object."""
    return [(name, _decode(arguments)) for name, arguments in calls]


def _decode(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def is_same(a: Reading, b: Reading) -> bool:
    """Do both say the same? To JSON, 1, 1.0 and true are not the same."""
    texts = (a.content, a.reasoning, a.unfinished) == (b.content, b.reasoning, b.unfinished)
    return texts and are_same_calls(a.calls, b.calls)


def are_same_calls(a: Sequence[tuple[str, Any]], b: Sequence[tuple[str, Any]]) -> bool:
    """The same, of calls; the order of members does not matter."""
    return _spell(a) == _spell(b)


def _spell(calls: Sequence[tuple[str, Any]]) -> str:
    return json.dumps(list(calls), sort_keys=True, default=repr)


def count_words(texts: Iterable[str]) -> dict[str, int]:
    """How often each of the `WORDS` occurs."""
    found = list(texts)
    return {word: sum(text.count(word) for text in found) for word in WORDS}


def find_lost(
    text: str, reading: Reading, *, damaged: bool = False, tags: Sequence[str] = ()
) -> str | None:
    """What of the text does not come out of it as often as it went in; None if all does.

    Args:
        text: what was read.
        reading: what came out.
        damaged: calls may hold an argument twice, of which one is read; these are let off.
        tags: what the format writes; what stands on both sides of a tag may become a word.
    """
    before, after = count_words([text]), count_words(reading.texts)
    bare = re.sub("|".join(map(re.escape, sorted(tags, key=len, reverse=True))), "", text)
    joined = count_words([bare]) if tags else before
    repeated = damaged and any(_may_repeat(key, text, reading) for key in KEYS)
    members = max(text.count('"arguments"'), text.count('"parameters"'))
    repeated |= damaged and 0 < len(reading.calls) < members
    for word in WORDS:
        times = f"written {before[word]} times, and read {after[word]} times"
        if after[word] > max(before[word], joined[word]) > 0:
            return f"{word!r} is told again: {times}"
        # What stood on both sides of a call is one text, and may have become one word.
        found = sum(part.count(word) for part in reading.texts)
        if found < before[word] and not repeated:
            return f"{word!r} is lost: {times}"
    return None


def _may_repeat(key: str, text: str, reading: Reading) -> bool:
    holders = sum(key in repr(arguments) for _, arguments in reading.calls)
    return 0 < holders < text.count(key)


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
        case _:
            pass
