"""The events of a running turn that are streamed to the caller."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from constrained.limits.deadline import Timings
from constrained.mask.logprobs import TokenDrawn
from grammars.turn import Event


@dataclass(frozen=True)
class Exhausted:
    """Event: the tokens have run out.

    All later events belong to the shortest legal ending, which is written in place of the model.
    """


@dataclass(frozen=True)
class ProgressMade:
    """Event: the progress of a turn, if the request has `progress=True`.

    Args:
        prompt_tokens: number of tokens in the prompt.
        cached_tokens: how many of them were taken from the KV cache.
        read_tokens: how many of them are processed so far, cached ones included.
        completion_tokens: number of generated tokens, those of the next events included.
        timings: seconds so far.
        tokens: ids of the tokens generated since the last `ProgressMade`. Some of them may be
            discarded later.
        position: number of tokens of the turn before these. Tokens that were reported before and
            are not among those are discarded.
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
    """Returns the events of the parser among those that are streamed."""
    about_tokens = (TokenDrawn, Exhausted, ProgressMade)
    return [event for event in stream if not isinstance(event, about_tokens)]
