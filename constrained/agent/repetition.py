"""Repetition: calls that would only repeat earlier ones. There are three kinds:

- an identical call that had the same result several times in a row;
- a cycle: a sequence of calls that came several times with the same results;
- a growing call: each time, a part of its arguments is doubled, and the result is the same.
"""

import json
from dataclasses import dataclass, field
from itertools import pairwise

from grammars.schema.nodes import identify
from grammars.turn import ToolCall

MAX_CYCLE_LENGTH = 8  # calls


@dataclass(frozen=True)
class Repetition:
    """A repetition that a call would continue: an identity, which is equal for all calls that
    continue it, and a text that describes it for the model."""

    identity: str
    text: str


@dataclass(frozen=True)
class _Execution:
    key: str
    content: str
    call: ToolCall = field(compare=False)


class CallHistory:
    """The executed calls of a run, with their results. A call or cycle may come `max_occurrences`
    times; one more is a repetition."""

    def __init__(self, max_occurrences: int):
        self._max_occurrences = max_occurrences
        self._executed: list[_Execution] = []
        self._last: dict[str, tuple[str, int]] = {}  # by key: last result, how often in a row

    def note(self, call: ToolCall, content: str) -> None:
        """Notes an executed call and its result."""
        key = identify_call(call)
        before, count = self._last.get(key, ("", 0))
        self._last[key] = (content, count + 1 if content == before else 1)
        self._executed.append(_Execution(key, content, call))

    def find_repetition(self, call: ToolCall) -> Repetition | None:
        """Returns the repetition that a call would continue; None if there is none."""
        return self._find_same(call) or self._find_cycle(call) or self._find_growth(call)

    def _find_same(self, call: ToolCall) -> Repetition | None:
        key = identify_call(call)
        _, count = self._last.get(key, ("", 0))
        if count < self._max_occurrences:
            return None
        return Repetition(key, f"this call has had the same result {count} times in a row")

    def _find_cycle(self, call: ToolCall) -> Repetition | None:
        key = identify_call(call)
        times = max(2, self._max_occurrences)
        for length in range(2, MAX_CYCLE_LENGTH + 1):
            tail = self._executed[-length * times :]
            if len(tail) < length * times or tail[0].key != key:
                continue
            if all(one == other for one, other in zip(tail, tail[length:], strict=False)):
                identity = " ".join(sorted({one.key for one in tail}))
                text = f"these {length} calls have come {times} times, with the same results"
                return Repetition(identity, text)
        return None

    def _find_growth(self, call: ToolCall) -> Repetition | None:
        count = self._max_occurrences + 1  # calls; between them there are `max_occurrences` growths
        tail = self._executed[-count:]
        if len(tail) < count or any(one.call.name != call.name for one in tail):
            return None
        if any(one.content != tail[0].content for one in tail):
            return None
        texts = [*(_write(one.call) for one in tail), _write(call)]
        for before, after in pairwise(texts):
            if not grows(before, after):
                return None
        text = f"the arguments only grow, and the result was the same {count} times"
        return Repetition(f"growing {call.name}", text)


def identify_call(call: ToolCall) -> str:
    """Returns a text that is equal for identical calls; the order of keys does not matter."""
    return identify([call.name, call.arguments])


def _write(call: ToolCall) -> str:
    return json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)


def grows(before: str, after: str) -> bool:
    """Returns whether the second text is the first one with a piece doubled: `ab` and `abab`, or
    `[1, 2]` and `[1, 2, 2]`."""
    added = len(after) - len(before)
    if added <= 0:
        return False
    place = 0
    while place < len(before) and before[place] == after[place]:
        place += 1
    if before[place:] != after[place + added :]:
        return False
    return before[:place].endswith(after[place : place + added])
