"""The conversation of a run: all of it, and what of it the model reads.

Where it grows beyond a bound, the oldest results of tools are replaced by a short note. As many are
replaced at once as brings it down to half of the bound: each time, the KV cache loses what stands
behind the first of them, so that is done seldom. Everything in front of it stays as it was.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.decode.request import Usage

KEPT = 0.5  # of the bound, behind a replacement
NOTE = "[{length:,} characters were removed to save context; call the tool again if you need them]"


@dataclass(frozen=True)
class DroppedResult:
    """A result that the model no longer reads.

    Args:
        message: its number in the messages of the run.
        step: how many turns the model had generated then.
    """

    message: int
    step: int


class Context:
    """The messages of a run.

    Args:
        messages: those that it begins with.

    Attributes:
        messages: all, as they came.
        shown: the same as the model reads them.
        dropped: what it no longer reads.
    """

    def __init__(self, messages: Sequence[Mapping[str, Any]]):
        self.messages = list(messages)
        self.shown = list(messages)
        self.dropped: list[DroppedResult] = []

    def append(self, message: Mapping[str, Any]) -> None:
        """Takes a message."""
        self.messages.append(message)
        self.shown.append(message)

    def pop(self) -> Mapping[str, Any]:
        """Takes the last message away."""
        self.shown.pop()
        return self.messages.pop()

    def shrink(self, max_tokens: int, usage: Usage, step: int) -> None:
        """Replaces the oldest results, if the next prompt would have more tokens than this.

        Args:
            max_tokens: tokens of the prompt.
            usage: of the last turn, behind which only results have come.
            step: how many turns there were.
        """
        last = max(i for i, message in enumerate(self.shown) if message["role"] == "assistant")
        read = sum(map(_measure, self.shown[: last + 1]))
        known = usage.prompt_tokens + usage.completion_tokens
        tokens_of_one = known / max(1, read)  # of a character; the text of the tools counts, too
        tokens = known + tokens_of_one * sum(map(_measure, self.shown[last + 1 :]))
        if tokens <= max_tokens:
            return
        gone = {result.message for result in self.dropped}
        for number, message in enumerate(self.shown[:last]):
            if tokens <= max_tokens * KEPT:
                return
            if message["role"] != "tool" or number in gone:
                continue
            note = NOTE.format(length=_measure(message))
            shorter = {**message, "content": note}
            saved = _measure(message) - _measure(shorter)
            if saved > 0:
                self.shown[number] = shorter
                self.dropped.append(DroppedResult(number, step))
                tokens -= tokens_of_one * saved


def _measure(message: Mapping[str, Any]) -> int:
    """Characters of a message."""
    length = len(json.dumps(message.get("content") or "", ensure_ascii=False))
    if calls := message.get("tool_calls"):
        length += len(json.dumps(calls, ensure_ascii=False))
    return length
