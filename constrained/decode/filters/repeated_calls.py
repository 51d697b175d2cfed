"""Repeated calls: a turn ends in front of a call that it has written often enough.

Small models that have to call a tool may write their first call again and again until the tokens
run out: the grammar takes any number of calls. So calls are counted as they become complete. The
events of a call that may still turn out to be one too many wait until it differs, so nothing that
was sent is ever taken back.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from constrained.decode.filters.events import StreamEvent
from grammars.turn import ArgumentEnd, ArgumentsDelta, CallCut, CallOpened, CallRead, ToolCall

MOST_IDENTICAL = 2
"""Two dice are rolled by two identical calls; figures in `benchmarks.real`."""


class RepeatedCalls:
    """Lets the events of one turn through, in order, up to the call that is one too many.

    Args:
        most: how many identical calls (same tool, same arguments, in any order of keys) a turn may
            have; None: any number.

    Attributes:
        is_exceeded: the last call that was read is one too many; nothing is let through any more.
    """

    def __init__(self, most: int | None):
        self._most = most
        self._counts = Counter[str]()
        self._used_up: dict[str, list[Mapping[str, str]]] = defaultdict(list)
        # The arguments of used-up calls that the one under way may still come to.
        self._candidates: list[Mapping[str, str]] = []
        self._waiting: list[StreamEvent] = []
        self.is_exceeded = False

    def take(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Notes what was read; returns what may be sent."""
        if self._most is None:
            return events
        sent: list[StreamEvent] = []
        for event in events:
            self._note(event)
            if self.is_exceeded:
                self._waiting.clear()
                break
            self._waiting.append(event)
            if not self._candidates:
                sent += self._waiting
                self._waiting.clear()
        return sent

    def _note(self, event: StreamEvent) -> None:
        match event:
            case CallOpened(_, name):
                self._candidates = list(self._used_up[name])
            case ArgumentsDelta():
                for boundary in event.boundaries:
                    if self._candidates and isinstance(boundary, ArgumentEnd):
                        self._compare(boundary)
            case CallRead(_, call):
                self._count(call)
            case CallCut():
                self._candidates = []
            case _:
                pass

    def _compare(self, end: ArgumentEnd) -> None:
        value = _canonical(end.value)
        self._candidates = [known for known in self._candidates if known.get(end.key) == value]

    def _count(self, call: ToolCall) -> None:
        key = _canonical([call.name, call.arguments])
        self._candidates = []
        self._counts[key] += 1
        if self._most is None or self._counts[key] < self._most:
            return
        self.is_exceeded = self._counts[key] > self._most
        arguments = {key: _canonical(value) for key, value in call.arguments.items()}
        self._used_up[call.name].append(arguments)


def _canonical(value: Any) -> str:
    """One text for equal JSON values: keys in order, and 2.0 as 2, which JSON Schema equates."""
    return json.dumps(_unify(value), sort_keys=True)


def _unify(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unify(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unify(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
