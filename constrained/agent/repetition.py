"""Repetition: calls that would only repeat what was there.

- the same call, which has had the same result several times in a row;
- a cycle: several calls one after the other, which have come several times, with the same results;
- a call that grows: each time with a piece of its arguments once more, and always the same result.
"""

import json
from dataclasses import dataclass, field
from itertools import pairwise

from grammars.schema.nodes import identify
from grammars.turn import ToolCall

LONGEST_CYCLE = 8  # calls


@dataclass(frozen=True)
class Repetition:
    """What a call would repeat.

    Args:
        identity: equal for calls that go on with the same repetition.
        text: in words.
    """

    identity: str
    text: str


@dataclass(frozen=True)
class _Execution:
    key: str
    content: str
    call: ToolCall = field(compare=False)


class CallHistory:
    """The calls of a run that were executed, with their results.

    Args:
        max_occurrences: how often something may be there before the next time is a repetition.
    """

    def __init__(self, max_occurrences: int):
        self._max_occurrences = max_occurrences
        self._executed: list[_Execution] = []
        self._last: dict[str, tuple[str, int]] = {}  # by key: the content, how often in a row

    def note(self, call: ToolCall, content: str) -> None:
        """Notes a call that was executed, and its result."""
        key = identify_call(call)
        before, count = self._last.get(key, ("", 0))
        self._last[key] = (content, count + 1 if content == before else 1)
        self._executed.append(_Execution(key, content, call))

    def find_repetition(self, call: ToolCall) -> Repetition | None:
        """What a call would repeat; None if nothing."""
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
        for length in range(2, LONGEST_CYCLE + 1):
            tail = self._executed[-length * times :]
            if len(tail) < length * times or tail[0].key != key:
                continue
            if all(one == other for one, other in zip(tail, tail[length:], strict=False)):
                identity = " ".join(sorted({one.key for one in tail}))
                text = f"these {length} calls have come {times} times, with the same results"
                return Repetition(identity, text)
        return None

    def _find_growth(self, call: ToolCall) -> Repetition | None:
        count = (
            self._max_occurrences + 1
        )  # calls, between which there are as many growths as may be
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
    """A text that is the same for equal calls, whatever the order of their keys."""
    return identify([call.name, call.arguments])


def _write(call: ToolCall) -> str:
    return json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)


def grows(before: str, after: str) -> bool:
    """True if the second text is the first one with the last piece in front of some place once
    more: `ab` and `abab`, `[1, 2]` and `[1, 2, 2]`."""
    added = len(after) - len(before)
    if added <= 0:
        return False
    place = 0
    while place < len(before) and before[place] == after[place]:
        place += 1
    if before[place:] != after[place + added :]:
        return False
    return before[:place].endswith(after[place : place + added])
