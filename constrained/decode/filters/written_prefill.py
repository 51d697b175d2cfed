"""The assistant prefill as text and tokens: it is part of the turn, but its events are not sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from constrained.mask.logprobs import TokenDrawn
from constrained.prompt.assistant_prefill import NO_PREFILL, AssistantPrefill
from grammars.turn import ContentDelta, ReasoningDelta

T = TypeVar("T")


@dataclass(frozen=True)
class WrittenPrefill:
    """An assistant prefill, as the format writes it: what a turn has before its first generated
    token.

    Args:
        text: the text from the start of the grammar, as the format writes it, as far as it is
            certain how it is cut into tokens.
        healed: the rest of that text. The first generated tokens have to spell it, and may go
            beyond it (token healing).
        tokens: the tokens of `text`; if content follows reasoning, those of the reasoning before.
        outside: how many of `tokens` are before the start of the grammar.
        reasoning_tokens: the number of tokens of a reasoning block that is still open.
        marker_suffixes: texts that may not follow, since the end of the text would become a marker.
    """

    text: str = ""
    healed: str = ""
    tokens: tuple[int, ...] = ()
    message: AssistantPrefill = NO_PREFILL
    outside: int = 0
    reasoning_tokens: int = 0
    marker_suffixes: tuple[str, ...] = ()

    @cached_property
    def _bytes(self) -> tuple[bytes, bytes]:
        return self.text.encode(), self.healed.encode()

    @property
    def has_text(self) -> bool:
        """True if the turn has events of which a part is the client's."""
        return bool(self.message.content or self.message.reasoning)

    @property
    def rest(self) -> bytes:
        """The bytes of `healed`."""
        return self._bytes[1]

    def after(self, data: bytes | bytearray) -> tuple[bytes, bytes]:
        """Returns all bytes of the turn, of which `data` were generated, and the bytes that have to
        come next."""
        text, healed = self._bytes
        return text + data, healed[len(data) :]

    def strip(self, text: str) -> str:
        """Removes the text of the prefill from a generated text."""
        return text[len(self.healed) :]


class PrefillFilter:
    """Removes the text of the prefill from the first events of a turn."""

    def __init__(self, prefill: WrittenPrefill):
        self._content = prefill.message.content
        # If the prefill has content, its reasoning is in the prompt.
        self._reasoning = "" if self._content else prefill.message.reasoning

    def take(self, events: Sequence[T]) -> list[T]:
        """Returns the events without the prefill. Takes all events of the turn, in order."""
        new: list[T] = []
        for event in events:
            rest = self._cut(event)
            if rest is not None:
                new.append(rest)
        return new

    def _cut(self, event: Any) -> Any:
        # Padding at the end of the prefill is in no event, so the rest of the known text may never
        # come. Therefore an event of another kind ends the search.
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
    """Returns the part of a text after the known text, and the known text that is still to come."""
    if known.startswith(text):
        return "", known[len(text) :]
    return text.removeprefix(known), ""
