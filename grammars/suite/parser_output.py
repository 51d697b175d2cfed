"""What any parser returns, in any of the forms that it may have, as a reading."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from grammars.parse.parser import collect
from grammars.schema.json_values import Json
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCall,
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
        """All texts in it."""
        yield from (self.content, self.reasoning, self.unfinished)
        for name, arguments in self.calls:
            yield name
            yield from _find_texts(arguments)


class ParserRefusal(Exception):  # noqa: N818  an answer of a parser, and no error of ours
    """The parser refuses a text, because it cannot read it."""


class BrokenParser(Exception):  # noqa: N818  as above
    """The parser gives no answer, or an invalid one.

    Args:
        message: what is wrong.
        kind: its kind, one of `ChangeKind`.
        place: where it is wrong, or the error that ended the parser; failures at one place have one
            cause.
    """

    def __init__(self, message: str, kind: str = "form of the answer", place: str = ""):
        super().__init__(message)
        self.kind, self.place = kind, place


@dataclass(frozen=True)
class Streamed:
    """Everything that a parser has reported in pieces, if it returns that at the end.

    Args:
        reading: what the pieces add up to.
        events: the pieces, in order.
    """

    reading: Reading
    events: Sequence[Event]


def as_reading(value: object, events: list[Event]) -> Reading:
    """Converts the final value of a parser to a reading; adds its events to `events`.

    Raises:
        TypeError: it is none of the forms that a parser may return.
    """
    if isinstance(value, Reading):
        return replace(value, calls=[_read_call(call) for call in value.calls])
    if isinstance(value, Streamed):
        events += value.events
        return as_reading(value.reading, events)
    if isinstance(value, Turn):
        return Reading(
            value.content,
            value.reasoning,
            calls=[_read_call(call) for call in value.calls],
            unfinished=value.unfinished,
        )
    events += as_events(value)
    if any(isinstance(event, CallRead | CallCut) for event in events):
        return as_reading(collect(events), [])
    return add_up(events)


def read_result(value: object) -> Reading:
    """Converts what a parser returns for a whole text; a list is one of calls or of events.

    Raises:
        TypeError: it is none of the forms that a parser may return.
    """
    if not isinstance(value, list | tuple):
        return as_reading(value, [])
    items = list(cast(Sequence[object], value))
    if any(isinstance(item, _EVENTS) or _is_delta(item) for item in items):
        return as_reading(items, [])
    return Reading(calls=[_read_call(item) for item in items])


def _read_call(call: object) -> tuple[str, Any]:
    if isinstance(call, ToolCall):
        return call.name, call.arguments
    if isinstance(call, dict):
        members = cast(dict[str, object], call)
        function = members.get("function")
        if isinstance(function, dict):
            members = cast(dict[str, object], function)
        pair = [members[key] for key in ("name", "arguments") if key in members]
    else:
        pair = list(cast(Sequence[object], call)) if isinstance(call, list | tuple) else []
    if len(pair) != 2 or not isinstance(pair[0], str):
        message = "a call is a pair of name and arguments, or an object with both"
        raise TypeError(f"{message}: {call!r:.100}")
    return pair[0], decode_arguments(pair[1])


def _is_delta(value: object) -> bool:
    return isinstance(value, dict) and not {"name", "function"} & value.keys()


def as_events(value: object) -> list[Event]:
    """Returns what a parser reports as events.

    Raises:
        TypeError: it reports something else.
    """
    if value is None:
        return []
    items = cast(Sequence[object], value) if isinstance(value, list | tuple) else [value]
    events: list[Event] = []
    for item in items:
        if isinstance(item, _EVENTS):
            events.append(item)
        elif _is_delta(item):
            events += read_delta(cast(dict[str, Any], item), "")
        else:
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


def read_delta(delta: Mapping[str, Any], where: str) -> list[Event]:
    """Reads what a parser reports for a chunk.

    Args:
        delta: has some of `content`, `reasoning` and `calls`; a call has an `index`, and some of
            `name` and `arguments`, the next piece of their JSON text.
        where: the place of the delta in the answer, for errors.

    Raises:
        BrokenParser: it has another form.
    """
    events: list[Event] = []
    if reasoning := read_text(delta, "reasoning", where):
        events.append(ReasoningDelta(reasoning))
    if content := read_text(delta, "content", where):
        events.append(ContentDelta(content))
    for i, call in enumerate(read_list(delta, "calls", where)):
        place = f"{where}/calls/{i}"
        members: dict[str, Any] = cast(dict[str, Any], call) if isinstance(call, dict) else {}
        index = members.get("index")
        if not isinstance(index, int):
            raise BrokenParser(f"{place} of the answer has no index")
        if members.get("name") is not None:
            events.append(CallOpened(index, read_name(members, place)))
        if arguments := read_text(members, "arguments", place):
            events.append(ArgumentsDelta(index, arguments))
    return events


def add_up(events: Sequence[Event]) -> Reading:
    """Returns what deltas add up to. Calls are in the order of their first delta.

    Args:
        events: the deltas.
    """
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


def read_text(answer: Mapping[str, Any], key: str, where: str) -> str:
    """Returns a text of an answer; "" if it is missing.

    Raises:
        BrokenParser: it is no text.
    """
    value = answer.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BrokenParser(f"{where}/{key} of the answer is not text: {value!r:.100}")
    return value


def read_list(answer: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """Returns a list of an answer; [] if it is missing.

    Raises:
        BrokenParser: it is no list.
    """
    value = answer.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BrokenParser(f"{where}/{key} of the answer is not a list: {value!r:.100}")
    return cast(list[Any], value)


def read_name(call: Mapping[str, Any], where: str) -> str:
    """Returns the name of a call.

    Raises:
        BrokenParser: it is no text.
    """
    name = call.get("name")
    if not isinstance(name, str):
        raise BrokenParser(f"{where}/name of the answer is not text: {name!r:.100}")
    return name
