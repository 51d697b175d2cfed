"""The events of a turn under way, as they are streamed to whoever asked for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from constrained.logits import TokenDrawn
from grammars.turn import Event


@dataclass(frozen=True)
class Exhausted:
    """The tokens have run out: all later events of the turn are of its shortest completion."""


StreamEvent: TypeAlias = Event | TokenDrawn | Exhausted
"""An event that the parser has read in the turn, or one about its tokens."""


def find_events(stream: Iterable[StreamEvent]) -> list[Event]:
    """The events that the parser has read, out of those that are streamed."""
    return [event for event in stream if not isinstance(event, TokenDrawn | Exhausted)]
