"""The progress of the turns of a request, in llama-server's form: `prompt_progress` and
`timings`."""

from dataclasses import dataclass
from typing import Any

from constrained.deadline import Timings
from constrained.decode.filters.events import ProgressMade
from constrained.reply import Reply

Json = dict[str, Any]


@dataclass(frozen=True)
class ProgressOptions:
    """The progress that a request wants to know.

    Args:
        prompt: chunks report how much of the prompt has been read.
        timings: every chunk has the timings so far.
        tokens: chunks have counts and ids of tokens.
        cached: only the beginning of a stream tells how much of the prompt was cached.
    """

    prompt: bool = False
    timings: bool = False
    tokens: bool = False
    cached: bool = False

    @property
    def is_shown(self) -> bool:
        """True if chunks have progress."""
        return self.prompt or self.timings or self.tokens

    @property
    def any(self) -> bool:
        """True if any progress is wanted."""
        return self.is_shown or self.cached


NO_PROGRESS = ProgressOptions()


class ChoiceProgress:
    """The progress of one choice, as far as the request wants it."""

    def __init__(self, options: ProgressOptions):
        self._options = options
        self._read: int | None = None
        self._timings: Json | None = None

    def take(self, made: ProgressMade) -> Json | None:
        """Takes progress; returns the fields of a separate chunk, or None if there is no such
        chunk."""
        self._timings = show_timings(
            prompt=made.prompt_tokens,
            cached=made.cached_tokens,
            completion=made.completion_tokens,
            timings=made.timings,
        )
        if made.read_tokens == self._read:
            return None
        self._read = made.read_tokens
        if not self._options.prompt:
            return None
        progress = {
            "total": made.prompt_tokens,
            "cache": made.cached_tokens,
            "processed": made.read_tokens,
            "time_ms": made.timings.prompt_seconds * 1e3,
        }
        return {"prompt_progress": progress}

    def finish(self, reply: Reply) -> None:
        """Notes that the choice is complete."""
        self._timings = show_reply_timings(reply)

    @property
    def fields(self) -> Json:
        """Returns the fields of each chunk."""
        if self._options.timings and self._timings:
            return {"timings": self._timings}
        return {}


def show_reply_timings(reply: Reply) -> Json:
    """Returns llama-server's `timings` of a whole reply."""
    return show_timings(
        prompt=reply.usage.prompt_tokens,
        cached=reply.usage.cached_tokens,
        completion=reply.usage.completion_tokens,
        timings=reply.timings,
    )


def show_timings(*, prompt: int, cached: int, completion: int, timings: Timings) -> Json:
    """Returns llama-server's `timings`, in milliseconds.

    Args:
        prompt: the number of prompt tokens.
        cached: how many of them were not computed.
        completion: the number of generated tokens.
        timings: the measured times.
    """
    computed = prompt - cached
    prompt_ms = timings.prompt_seconds * 1e3
    predicted_ms = timings.generation_seconds * 1e3
    return {
        "cache_n": cached,
        "prompt_n": computed,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / max(1, computed),
        "prompt_per_second": computed / max(1e-9, timings.prompt_seconds),
        "predicted_n": completion,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / max(1, completion),
        "predicted_per_second": completion / max(1e-9, timings.generation_seconds),
    }
