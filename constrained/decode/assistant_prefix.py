"""Text of the client that a turn goes on with: it counts as written, and is not sent again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from constrained.logits import TokenDrawn
from constrained.messages import read_thought
from grammars.turn import ContentDelta, ReasoningDelta

T = TypeVar("T")


@dataclass(frozen=True)
class Prefix:
    """What a turn has already, when its first token is generated.

    Args:
        head: the text from where the grammar starts, as the format writes it, up to where it is
            certain how it is cut into tokens.
        healed: the rest of that text: the first tokens that are generated have to spell it, and
            may go beyond it.
        tokens: those of `head`, and in front of them those of a reasoning that content follows.
        content: what of the text is content.
        reasoning: what of it is reasoning.
        thought: how many of the tokens are reasoning, of a block that is still open.
        halves: what may not follow at once: it would make a marker of the end of the text.
    """

    head: str = ""
    healed: str = ""
    tokens: tuple[int, ...] = ()
    content: str = ""
    reasoning: str = ""
    thought: int = 0
    halves: tuple[str, ...] = ()

    @cached_property
    def _bytes(self) -> tuple[bytes, bytes]:
        return self.head.encode(), self.healed.encode()

    @property
    def rest(self) -> bytes:
        """The bytes of `healed`."""
        return self._bytes[1]

    def behind(self, data: bytes | bytearray) -> tuple[bytes, bytes]:
        """All that the turn says when these bytes were generated, and what has to come next."""
        head, healed = self._bytes
        return head + data, healed[len(data) :]

    def strip(self, text: str) -> str:
        """What is new in a text that was generated behind the prefix."""
        return text[len(self.healed) :]

    def join(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message of the whole turn: this text, and what was generated behind it.

        Args:
            message: of what was generated, in OpenAI form.
        """
        whole = {**message, "content": self.content + (message.get("content") or "")}
        if thought := self.reasoning + (read_thought(message) or ""):
            whole["reasoning_content"] = thought
        return whole


class PrefixFilter:
    """Takes the prefix out of the events of one turn, the first of which repeat it."""

    def __init__(self, prefix: Prefix):
        self._content = prefix.content
        # Where there is content, the reasoning is closed, and the prompt has it.
        self._reasoning = "" if prefix.content else prefix.reasoning

    def take(self, events: Sequence[T]) -> list[T]:
        """What is new in the events; to be given all of a turn, in order."""
        kept: list[T] = []
        for event in events:
            new = self._cut(event)
            if new is not None:
                kept.append(new)
        return kept

    def _cut(self, event: Any) -> Any:
        # No event repeats what the parser has taken for padding in the end: it must not be looked
        # for in what comes behind.
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
    """What is new in a text, and what is known of the text that is to come."""
    if known.startswith(text):
        return "", known[len(text) :]
    return text.removeprefix(known), ""
