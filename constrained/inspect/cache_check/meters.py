"""Finds out how to measure how much of a prompt a server has read from its cache.

A prompt is sent twice. The first of these that differs between the two replies is used: the count
of cached tokens, the count of prompt tokens (older Ollamas count those computed), or the time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from constrained.inspect.cache_check.chat_client import ChatReply
from constrained.inspect.cache_check.experiments import SentConversation

BLOCK = 16
"""The block of tokens that most servers reuse as a whole or not at all, as vLLM does by default."""
_PAIRS = 3  # prompts that are sent twice to compare times
_SHORTER = 0.7  # the maximum time of a repeated prompt, relative to a new one, for a usable meter
_MIN_SECONDS = 0.005  # the minimum difference of the two
_DOUBT = 0.25  # the error of an estimate, relative to the prompt
_LETTERS = 4  # characters of a token, if the server does not count tokens


@dataclass(frozen=True)
class Measure:
    """How much of a prompt was cached.

    Args:
        prompt_tokens: of the whole prompt.
        cached: how many of them were read from the cache.
    """

    prompt_tokens: int
    cached: int


class Meter(Protocol):
    """Measures from a reply how much of its prompt was cached."""

    @property
    def source(self) -> str:
        """The source of the measure, in a few words."""
        ...

    @property
    def is_estimate(self) -> bool:
        """True if the server does not report a count."""
        ...

    def measure(self, reply: ChatReply, guess: int) -> Measure:
        """Measures how much of the prompt of a reply was cached.

        Args:
            guess: the number of prompt tokens, for servers that do not count all of them.
        """
        ...

    def tolerate(self, expected: int) -> int:
        """Returns how many of the expected tokens may be missing for other reasons."""
        ...


@dataclass(frozen=True)
class CountMeter:
    """A meter that reads the count of cached tokens.

    Args:
        source: the field.
        rest: tokens that are computed even for a known prompt.
    """

    source: str
    rest: int

    @property
    def is_estimate(self) -> bool:
        return False

    def measure(self, reply: ChatReply, guess: int) -> Measure:
        return Measure(reply.prompt_tokens or guess, reply.cached.get(self.source, 0))

    def tolerate(self, expected: int) -> int:
        return BLOCK + self.rest


@dataclass(frozen=True)
class ComputedMeter:
    """A meter that reads the count of prompt tokens, if it leaves out cached ones: older versions
    of Ollama have it in `prompt_eval_count`, and therefore in `usage.prompt_tokens`."""

    @property
    def source(self) -> str:
        return "usage.prompt_tokens, which does not count cached tokens"

    @property
    def is_estimate(self) -> bool:
        return True

    def measure(self, reply: ChatReply, guess: int) -> Measure:
        computed = guess if reply.prompt_tokens is None else reply.prompt_tokens
        return Measure(max(guess, computed), max(0, guess - computed))

    def tolerate(self, expected: int) -> int:
        return BLOCK + int(_DOUBT * expected)


@dataclass(frozen=True)
class TimeMeter:
    """A meter that compares the time until the first token with those of new and repeated prompts.

    Args:
        repeated: seconds for a cached prompt.
        per_token: seconds for each token that is not cached.
    """

    repeated: float
    per_token: float

    @property
    def source(self) -> str:
        return "the time until the first token"

    @property
    def is_estimate(self) -> bool:
        return True

    def measure(self, reply: ChatReply, guess: int) -> Measure:
        total = reply.prompt_tokens or guess
        computed = round((reply.seconds - self.repeated) / self.per_token)
        return Measure(total, total - min(total, max(0, computed)))

    def tolerate(self, expected: int) -> int:
        return BLOCK + int(_DOUBT * expected)


def find_meter(send: Callable[[str], ChatReply], sample: SentConversation) -> Meter | None:
    """Finds what distinguishes new prompts from repeated ones; None: nothing does.

    Args:
        send: takes a salt; sends the sample with it.
        sample: its length gives an estimate of its tokens, if the server does not count them.
    """
    send("warm-up")
    pairs: list[tuple[ChatReply, ChatReply]] = []
    for number in range(_PAIRS):
        salt = f"sample {number}"
        cold, repeated = send(salt), send(salt)
        found = _find_count(cold, repeated)
        if found is not None:
            return found
        pairs.append((cold, repeated))
    return _find_time(pairs, guess_tokens(sample))


def guess_tokens(conversation: SentConversation) -> int:
    """Estimates the number of tokens of a prompt."""
    return max(1, len(repr(conversation)) // _LETTERS)


def _find_count(cold: ChatReply, repeated: ChatReply) -> Meter | None:
    for source, count in repeated.cached.items():
        if count > cold.cached.get(source, 0):
            return CountMeter(source, max(0, (repeated.prompt_tokens or count) - count))
    first, second = cold.prompt_tokens, repeated.prompt_tokens
    if first is not None and second is not None and second < _SHORTER * first:
        return ComputedMeter()
    return None


def _find_time(pairs: Sequence[tuple[ChatReply, ChatReply]], guess: int) -> Meter | None:
    """Returns the meter of times, if the slowest repeated prompt was faster than all new ones."""
    cold = min(pair[0].seconds for pair in pairs)
    repeated = max(pair[1].seconds for pair in pairs)
    if repeated > _SHORTER * cold or cold - repeated < _MIN_SECONDS:
        return None
    tokens = pairs[0][0].prompt_tokens or guess
    return TimeMeter(repeated, (cold - repeated) / tokens)
