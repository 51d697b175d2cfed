"""Which call of a conversation each result belongs to, whatever ids a client writes."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]


def match_results(messages: Sequence[Message]) -> list[int | None]:
    """Returns for each message the number of the call whose result it is, counted from 0 over the
    conversation; None: it is no result, or no call is left for it.

    A result belongs to the call with its id; of several, to the first one without a result. Results
    without an id, or with one that no call has, belong to the other calls in their order.
    """
    numbers: list[int | None] = [None] * len(messages)
    known: dict[Any, int] = {}  # the last call of each id
    turn = _CallingTurn(0, ())
    for place, message in enumerate(messages):
        if "tool_calls" in message:
            turn.match_others(numbers)
            turn = _CallingTurn(turn.end, message["tool_calls"])
            known |= turn.numbers
        elif message["role"] == "tool":
            id = _read_id(message, "tool_call_id")
            numbers[place] = turn.take(id) if id in turn.numbers else known.get(id)
            if numbers[place] is None:
                turn.others.append(place)
    turn.match_others(numbers)
    return numbers


def renumber(messages: Sequence[Message], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a conversation in normal form whose calls and results have these ids."""
    left = iter(ids)
    written: list[dict[str, Any]] = []
    for message, number in zip(messages, match_results(messages), strict=True):
        message = dict(message)
        if "tool_calls" in message:
            message["tool_calls"] = [{**call, "id": next(left)} for call in message["tool_calls"]]
        if number is not None:
            message["tool_call_id"] = ids[number]
        written.append(message)
    return written


def list_calls(messages: Sequence[Message]) -> Iterator[Any]:
    for message in messages:
        yield from message.get("tool_calls") or ()


class _CallingTurn:
    """The calls of one message; `others`: the places of results without a call of their id."""

    def __init__(self, start: int, calls: Sequence[Any]):
        self.end = start + len(calls)
        self.numbers: dict[Any, int] = {}
        self.others: list[int] = []
        self._waiting: dict[Any, deque[int]] = {}
        self._free = dict.fromkeys(range(start, self.end))
        for number, call in enumerate(calls, start):
            id = _read_id(call, "id")
            if id is not None:
                self.numbers[id] = number
                self._waiting.setdefault(id, deque()).append(number)

    def take(self, id: Any) -> int:
        """Returns the call of a result with this id: the last one, if each has a result."""
        waiting = self._waiting[id]
        number = waiting.popleft() if waiting else self.numbers[id]
        self._free.pop(number, None)
        return number

    def match_others(self, numbers: list[int | None]) -> None:
        for place, number in zip(self.others, self._free, strict=False):
            numbers[place] = number


def _read_id(data: Any, key: str) -> Any:
    id = data.get(key) if isinstance(data, Mapping) else None
    return id if isinstance(id, str | int) and id != "" else None
