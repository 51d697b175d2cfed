"""The sampler protocol: token ids and a grammar in, a stream of token ids out.

A front renders the prompt, writes the grammar, reads and checks what comes back. Whatever draws the
tokens, in this process or on another machine, is a `TokenSampler`.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from constrained.engine.sampling import Sampling
from constrained.vocabulary.vocabulary import Vocabulary


class Lack(StrEnum):
    """What the local engine does, and an engine that only draws tokens cannot."""

    FORCED_TOKENS = "forced tokens"
    """Tokens that the grammar leaves no choice about cost a decode each."""
    SNAPSHOTS = "snapshots"
    """Conversations whose KV cache is taken over are computed anew."""
    PREFILL = "prefill"
    """No turn goes on with a text of the client."""
    AFTER_REPETITION = "going on after max_repetition"
    """A value that repeats itself for too long ends the turn, in the shortest way."""
    REWRITING = "rewriting"
    """A value that does not fit is an error at once, and is not written a second time."""
    TRACE = "trace"
    DETERMINISM = "deterministic"
    SALTS = "cache_salt"
    """The engine's prompt cache knows no scopes."""


LACKS = (
    Lack.FORCED_TOKENS,
    Lack.SNAPSHOTS,
    Lack.PREFILL,
    Lack.AFTER_REPETITION,
    Lack.REWRITING,
    Lack.TRACE,
    Lack.DETERMINISM,
)
"""Those of every engine that takes a grammar and gives tokens."""


@dataclass(frozen=True)
class SamplerLimits:
    """What a sampler can do.

    Args:
        context_length: tokens of prompt and reply together.
        sequences: how many requests it works on at a time; more of them wait here.
        lacks: what it cannot do.
    """

    context_length: int
    sequences: int
    lacks: tuple[Lack, ...] = LACKS


@dataclass(frozen=True)
class SampleRequest:
    """What a sampler is asked for.

    Args:
        name: of the request, for its abort.
        prompt: token ids.
        grammar: of the reply, as the sampler's emitter has written it; None: anything goes.
        max_tokens: at most so many.
        sampling: how tokens are drawn.
        logprobs: tell how likely each token was, and so many of the likeliest; None: nothing.
        ignore_eos: draw no end token.
        cache_salt: the scope of requests that find what was computed for it; None: none does.
    """

    name: str
    prompt: Sequence[int]
    grammar: str | None
    max_tokens: int
    sampling: Sampling
    logprobs: int | None = None
    ignore_eos: bool = False
    cache_salt: str | None = None


@dataclass(frozen=True)
class SampleStart:
    """The sampler has begun, as far as it tells that.

    Args:
        cached: how many tokens of the prompt it does not compute.
    """

    cached: int


@dataclass(frozen=True)
class SampledToken:
    """A token that was drawn.

    Args:
        token: its id.
        logprob: the logarithm of its probability, as the model sees it; None: not told.
        top: the most likely tokens there and their logarithms.
    """

    token: int
    logprob: float | None = None
    top: Mapping[int, float] = field(default_factory=dict[int, float])


class EndReason(StrEnum):
    """Why a sampler has ended: an end token, or the tokens have run out."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True)
class DrawnBy:
    """What has drawn a reply, as the engine names it.

    Args:
        build: the engine and its configuration; None: not told.
        weights: the version of its weights, which it may change while it runs; None: not told.
    """

    build: str | None = None
    weights: str | None = None


@dataclass(frozen=True)
class SampleEnd:
    """The end of a stream, as the sampler tells it. A stream without one was cut.

    Args:
        reason: why it has ended.
        count: how many tokens it has sent, with end tokens; None: not told.
        cached: how many tokens of the prompt it did not compute; None: not told.
        drawn: how many tokens it has drawn; None: as many as it has sent.
        drawn_by: what has drawn it.
    """

    reason: EndReason
    count: int | None = None
    cached: int | None = None
    drawn: int | None = None
    drawn_by: DrawnBy = DrawnBy()


Sampled: TypeAlias = SampleStart | SampledToken | SampleEnd


class RemoteTokenizer(Protocol):
    """The tokenizer of an engine, to be compared with the local vocabulary."""

    async def tokenize(self, text: str) -> list[int]:
        """The tokens of a text, names of special tokens recognised, no BOS; raises RemoteError."""
        ...

    async def detokenize(self, tokens: list[int]) -> str:
        """The text of tokens, special ones by their names; raises RemoteError."""
        ...


class TokenSampler(Protocol):
    """Draws the tokens of replies under their grammars. Its methods belong to one event loop."""

    @property
    def name(self) -> str:
        """What it is, and where, for people."""
        ...

    @property
    def emitter(self) -> str:
        """In which language it takes grammars: a name of `emitters`."""
        ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def limits(self) -> SamplerLimits: ...

    def check(self, request: SampleRequest) -> None:
        """Raises RequestError for an option that it would have to ignore."""
        ...

    def open(self, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        """Draws tokens until an end. Closing the generator aborts the request at the sampler.

        Raises:
            RemoteError: it cannot be reached, refuses the request, or answers what is no answer.
        """
        ...

    async def close(self) -> None:
        """Lets go of connections; a second time does nothing."""
        ...
