"""How far the turns of a request are, as llama-server tells it: `prompt_progress` and `timings`."""

from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from constrained.deadline import Timings
from constrained.decode.filters.events import ProgressMade
from constrained.reply import Reply

Json = dict[str, Any]


@dataclass(frozen=True)
class ProgressWishes:
    """The wishes of a request.

    Args:
        prompt: chunks say how much of the prompt is read.
        timings: every chunk has the timings so far.
        tokens: chunks have counts and ids of tokens.
    """

    prompt: bool = False
    timings: bool = False
    tokens: bool = False

    @property
    def any(self) -> bool:
        """True if the progress has to be known."""
        return self.prompt or self.timings or self.tokens


class ReplyTimings(TypedDict):
    """llama-server's `timings`: counts of tokens, and milliseconds."""

    cache_n: int
    """Tokens of the prompt that were not computed again."""
    prompt_n: int
    """Tokens of the prompt that were computed."""
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float


NO_WISHES = ProgressWishes()


class ChoiceProgress:
    """The progress of one choice, as far as a request wishes to know it."""

    def __init__(self, wishes: ProgressWishes):
        self._wishes = wishes
        self._read: int | None = None
        self._timings: ReplyTimings | None = None

    def take(self, made: ProgressMade) -> Json | None:
        """The fields of a chunk of its own, if there is to be one."""
        self._timings = show_timings(
            prompt=made.prompt_tokens,
            cached=made.cached_tokens,
            completion=made.completion_tokens,
            timings=made.timings,
        )
        if made.read_tokens == self._read:
            return None
        self._read = made.read_tokens
        if not self._wishes.prompt:
            return None
        progress = {
            "total": made.prompt_tokens,
            "cache": made.cached_tokens,
            "processed": made.read_tokens,
            "time_ms": made.timings.prompt_seconds * 1e3,
        }
        return {"prompt_progress": progress}

    def finish(self, reply: Reply) -> None:
        """The choice is over."""
        self._timings = show_reply_timings(reply)

    @property
    def fields(self) -> Json:
        """What each chunk has."""
        if self._wishes.timings and self._timings:
            return {"timings": self._timings}
        return {}


def show_reply_timings(reply: Reply) -> ReplyTimings:
    """llama-server's `timings` of a whole reply."""
    return show_timings(
        prompt=reply.usage.prompt_tokens,
        cached=reply.usage.cached_tokens,
        completion=reply.usage.completion_tokens,
        timings=reply.timings,
    )


def show_timings(*, prompt: int, cached: int, completion: int, timings: Timings) -> ReplyTimings:
    """llama-server's `timings`, in milliseconds.

    Args:
        prompt: its tokens.
        cached: those of them that were not computed.
        completion: the tokens that were generated.
        timings: how long that took.
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
