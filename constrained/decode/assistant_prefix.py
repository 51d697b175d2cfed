"""The prefix of a turn: an assistant prefill counts as generated, and is not sent again."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from constrained.assistant_prefill import NO_PREFILL, AssistantPrefill
from constrained.logits import TokenDrawn
from grammars.turn import ContentDelta, ReasoningDelta

T = TypeVar("T")


@dataclass(frozen=True)
class AssistantPrefix:
    """The text and tokens that a turn has already, when its first token is generated.

    Args:
        text: the text from where the grammar starts, as the format writes it, up to where it is
            certain how it is cut into tokens.
        healed: the rest of that text: the first tokens that are generated have to spell it, and
            may go beyond it.
        tokens: those of `text`, and in front of them those of a reasoning that content follows.
        prefill: the reasoning and content that the text writes.
        outside: the number of these tokens that are in front of where the grammar starts.
        reasoning_tokens: the number of tokens of a reasoning block that is still open.
        marker_suffixes: texts that may not follow: they would make a marker of the end of the text.
    """

    text: str = ""
    healed: str = ""
    tokens: tuple[int, ...] = ()
    prefill: AssistantPrefill = NO_PREFILL
    outside: int = 0
    reasoning_tokens: int = 0
    marker_suffixes: tuple[str, ...] = ()

    @cached_property
    def _bytes(self) -> tuple[bytes, bytes]:
        return self.text.encode(), self.healed.encode()

    @property
    def rest(self) -> bytes:
        """The bytes of `healed`."""
        return self._bytes[1]

    def behind(self, data: bytes | bytearray) -> tuple[bytes, bytes]:
        """All bytes of the turn when these were generated, and those that have to come next."""
        text, healed = self._bytes
        return text + data, healed[len(data) :]

    def strip(self, text: str) -> str:
        """The text without the part that the prefix has given."""
        return text[len(self.healed) :]


class PrefixFilter:
    """Takes the prefix out of the events of one turn: it is in the first of them."""

    def __init__(self, prefix: AssistantPrefix):
        self._content = prefix.prefill.content
        # Where content follows, the reasoning is in the prompt.
        self._reasoning = "" if self._content else prefix.prefill.reasoning

    def take(self, events: Sequence[T]) -> list[T]:
        """The events without the prefix; takes all of them, in order."""
        new: list[T] = []
        for event in events:
            rest = self._cut(event)
            if rest is not None:
                new.append(rest)
        return new

    def _cut(self, event: Any) -> Any:
        # Padding at the end of the prefix is in no event, so that the rest of the known text may
        # never come: another kind of event ends the search for it.
        match event:
            case ReasoningDelta(text):
                text, self._reasoning = _cut_known(text, self._reasoning)
                return ReasoningDelta(text) if text else None
            case ContentDelta(text):
                text, self._content = _cut_known(text, self._content)
                self._reasoning = ""
                return ContentDelta(text) if text else None
            case TokenDrawn():
                return event
            case _:
                self._content = self._reasoning = ""
                return event


def _cut_known(text: str, known: str) -> tuple[str, str]:
    """The new part of a text, and the known part of the text that is to come."""
    if known.startswith(text):
        return "", known[len(text) :]
    return text.removeprefix(known), ""
