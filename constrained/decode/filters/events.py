"""The events of a turn under way, as they are streamed to whoever asked for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from constrained.deadline import Timings
from constrained.logits import TokenDrawn
from grammars.turn import Event


@dataclass(frozen=True)
class Exhausted:
    """The tokens have run out: all later events of the turn are of its shortest completion."""


@dataclass(frozen=True)
class ProgressMade:
    """The progress of a turn so far.

    Args:
        prompt_tokens: those that the model reads before it generates.
        cached_tokens: those of them that were in the KV cache, and are not computed.
        read_tokens: those of them that the model has seen, the cached ones included.
        completion_tokens: those that are generated, the next events' included.
        timings: until now.
        tokens: ids of those that were generated since the last event of this kind; some of them
            may be thrown away again.
        position: how many tokens of the turn are in front of these; those that were told before
            and are not among them are thrown away.
    """

    prompt_tokens: int
    cached_tokens: int
    read_tokens: int
    completion_tokens: int
    timings: Timings
    tokens: tuple[int, ...] = ()
    position: int = 0


StreamEvent: TypeAlias = Event | TokenDrawn | Exhausted | ProgressMade
"""An event that the parser has read in the turn, or one about its tokens."""


def find_events(stream: Iterable[StreamEvent]) -> list[Event]:
    """The events that the parser has read, out of those that are streamed."""
    about_tokens = (TokenDrawn, Exhausted, ProgressMade)
    return [event for event in stream if not isinstance(event, about_tokens)]
