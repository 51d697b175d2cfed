"""What any parser returns, in any of the forms that it may have, as a reading."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from grammars.parse.parser import collect
from grammars.schema.json_values import Json, JsonObject
from grammars.suite.answers import NO_CALL, write_call
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    Event,
    ReasoningDelta,
    Turn,
    decode_arguments,
)

_EVENTS = (ReasoningDelta, ContentDelta, CallOpened, ArgumentsDelta, CallRead, CallCut)


@dataclass(frozen=True)
class Reading:
    """What a parser has read.

    Args:
        content, reasoning: the text of each.
        calls: the name and the arguments of each call, as a pair, as an object with `name` and
            `arguments`, or in OpenAI's form. Arguments are a value or its JSON text.
        unfinished: the text of a call that was cut short, if the parser separates it from content.
    """

    content: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    unfinished: str = ""

    @property
    def texts(self) -> Iterable[str]:
        yield from (self.content, self.reasoning, self.unfinished)
        for name, arguments in self.calls:
            yield name
            yield from _find_texts(arguments)


class ParserRefusal(Exception):  # noqa: N818  an answer of a parser, and no error of ours
    """The parser refuses a text, because it cannot read it."""


class BrokenParser(Exception):  # noqa: N818  as above
    """The parser gives no answer, or an invalid one; `kind`: one of `ChangeKind`. `place`: where,
    or the error that ended the parser; failures at one place have one cause."""

    def __init__(self, message: str, kind: str = "form of the answer", place: str = ""):
        super().__init__(message)
        self.kind, self.place = kind, place


@dataclass(frozen=True)
class Streamed:
    """Everything that a parser has reported in pieces, if it returns that at the end."""

    reading: Reading
    events: Sequence[Event]


class AskedParser:
    """A parser that is asked for a whole text, or for all chunks at once, and answers as the pipe
    does."""

    def __init__(
        self, read: Callable[[str], JsonObject], stream: Callable[[Sequence[str]], JsonObject]
    ):
        self._read, self._stream = read, stream
        self._chunks: list[str] = []

    def read(self, text: str) -> Reading:
        return read_answer(self._read(text))

    def feed(self, text: str) -> None:
        self._chunks.append(text)

    def close(self) -> Streamed:
        return read_deltas(self._stream(self._chunks))


def as_reading(value: object, events: list[Event]) -> Reading:
    """Converts the final value of a parser, and adds its events to `events`. Raises a `TypeError`
    if it is none of the forms that a parser may return."""
    if isinstance(value, Streamed):
        events += value.events
        value = value.reading
    if isinstance(value, Reading):
        return replace(value, calls=_read_calls(value.calls))
    if isinstance(value, Turn):
        calls = [(call.name, call.arguments) for call in value.calls]
        return Reading(value.content, value.reasoning, calls, value.unfinished)
    events += as_events(value)
    if any(isinstance(event, CallRead | CallCut) for event in events):
        return as_reading(collect(events), [])
    return add_up(events)


def read_result(value: object) -> Reading:
    """Converts what a parser returns for a whole text; raises as `as_reading` does."""
    if isinstance(value, list | tuple):
        return Reading(calls=_read_calls(cast(Sequence[object], value)))
    return as_reading(value, [])


def _read_calls(calls: Sequence[object]) -> list[tuple[str, Any]]:
    read: list[tuple[str, Any]] = []
    for call in calls:
        written = write_call(call)
        if not isinstance(written["name"], str):
            raise TypeError(f"{NO_CALL}: {call!r:.100}")
        read.append((written["name"], decode_arguments(written["arguments"])))
    return read


def as_events(value: object) -> list[Event]:
    """Returns what a parser reports as events; raises a `TypeError` if it is something else."""
    items = cast(Sequence[object], value) if isinstance(value, list | tuple) else [value]
    events: list[Event] = []
    for item in items:
        if isinstance(item, _EVENTS):
            events.append(item)
        elif isinstance(item, dict):
            events += _read_delta(cast(dict[str, Any], item), "")
        elif item is not None:
            message = "neither a Reading nor a Turn nor deltas nor events"
            raise TypeError(f"{message}: {value!r:.200}")
    return events


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


def add_up(events: Sequence[Event]) -> Reading:
    """Returns what deltas add up to. Calls are in the order of their first delta."""
    content = reasoning = ""
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for event in events:
        match event:
            case ContentDelta(text):
                content += text
            case ReasoningDelta(text):
                reasoning += text
            case CallOpened(index, name):
                names[index] = names.get(index, "") + name
            case ArgumentsDelta(index, text):
                arguments[index] = arguments.get(index, "") + text
            case CallRead() | CallCut():
                raise AssertionError(f"no delta: {event}")
    calls = [(name, decode_arguments(arguments.get(i, ""))) for i, name in names.items()]
    return Reading(content, reasoning, calls=calls)


def read_answer(answer: JsonObject) -> Reading:
    """Reads the answer to a whole text; raises a `ParserRefusal` or a `BrokenParser`."""
    _check_error(answer)
    if "deltas" in answer:
        return read_deltas(answer).reading
    calls: list[tuple[str, Any]] = []
    for i, call in enumerate(_read_list(answer, "calls", "")):
        where = f"/calls/{i}"
        if not isinstance(call, dict):
            raise BrokenParser(f"{where} of the answer is not an object")
        if "arguments" not in call:
            raise BrokenParser(f"{where} of the answer has no arguments")
        members = cast(dict[str, Any], call)
        calls.append((_read_name(members, where), decode_arguments(members["arguments"])))
    return Reading(
        content=_read_text(answer, "content", ""),
        reasoning=_read_text(answer, "reasoning", ""),
        calls=calls,
    )


def read_deltas(answer: JsonObject) -> Streamed:
    """Reads the answer to a text in chunks; raises as `read_answer` does."""
    _check_error(answer)
    if "deltas" not in answer:
        raise BrokenParser("the answer to chunks has no deltas")
    events: list[Event] = []
    for i, delta in enumerate(_read_list(answer, "deltas", "")):
        if not isinstance(delta, dict):
            raise BrokenParser(f"/deltas/{i} of the answer is not an object")
        events += _read_delta(cast(dict[str, Any], delta), f"/deltas/{i}")
    return Streamed(add_up(events), events)


def _check_error(answer: JsonObject) -> None:
    error = answer.get("error")
    if error is not None:
        raise ParserRefusal(f"it answers with an error: {str(error)[:200]}")


def _read_delta(delta: Mapping[str, Any], where: str) -> list[Event]:
    """Reads what a parser reports for a chunk; `where` is its place in the answer, for errors."""
    events: list[Event] = []
    if reasoning := _read_text(delta, "reasoning", where):
        events.append(ReasoningDelta(reasoning))
    if content := _read_text(delta, "content", where):
        events.append(ContentDelta(content))
    for i, call in enumerate(_read_list(delta, "calls", where)):
        place = f"{where}/calls/{i}"
        members: dict[str, Any] = cast(dict[str, Any], call) if isinstance(call, dict) else {}
        index = members.get("index")
        if not isinstance(index, int):
            raise BrokenParser(f"{place} of the answer has no index")
        if members.get("name") is not None:
            events.append(CallOpened(index, _read_name(members, place)))
        if arguments := _read_text(members, "arguments", place):
            events.append(ArgumentsDelta(index, arguments))
    return events


def _read_text(answer: Mapping[str, Any], key: str, where: str) -> str:
    value = answer.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BrokenParser(f"{where}/{key} of the answer is not text: {value!r:.100}")
    return value


def _read_list(answer: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = answer.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BrokenParser(f"{where}/{key} of the answer is not a list: {value!r:.100}")
    return cast(list[Any], value)


def _read_name(call: Mapping[str, Any], where: str) -> str:
    name = call.get("name")
    if not isinstance(name, str):
        raise BrokenParser(f"{where}/name of the answer is not text: {name!r:.100}")
    return name
