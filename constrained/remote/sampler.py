"""The sampler protocol: takes token ids and a grammar, and streams token ids.

The caller renders the prompt, writes the grammar, and checks the tokens that come back. A
`TokenSampler` samples the tokens, in this process or on another machine.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from constrained.engine.sampling import Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary


class Lack(StrEnum):
    """Abilities of the local engine that an engine which only samples tokens lacks."""

    FORCED_TOKENS = "forced tokens"
    """Tokens that the grammar forces cost a decode each."""
    SNAPSHOTS = "snapshots"
    """Conversations are computed again after their KV cache has been overwritten."""
    PREFILL = "prefill"
    """No turn continues a text of the client."""
    AFTER_REPETITION = "continuing after max_repetition"
    """A value that repeats itself for too long ends the turn, in the shortest way."""
    REWRITING = "rewriting"
    """A value that fails its check is an error at once, and is not written a second time."""
    TRACE = "trace"
    DETERMINISM = "deterministic"
    SALTS = "cache_salt"
    """The engine's prompt cache has no scopes."""


LACKS = (
    Lack.FORCED_TOKENS,
    Lack.SNAPSHOTS,
    Lack.PREFILL,
    Lack.AFTER_REPETITION,
    Lack.REWRITING,
    Lack.TRACE,
    Lack.DETERMINISM,
)
"""What all engines lack that take a grammar and return tokens."""


@dataclass(frozen=True)
class SamplerLimits:
    """The limits of a sampler.

    Args:
        context_length: the maximum number of tokens of prompt and reply together.
        sequences: how many requests it works on at a time; further ones wait here.
    """

    context_length: int
    sequences: int
    lacks: tuple[Lack, ...] = LACKS


@dataclass(frozen=True)
class SampleRequest:
    """A request to a sampler.

    Args:
        grammar: of the reply, in llguidance's Lark dialect; None: no grammar.
        logprobs: report the probability of each token, and this number of the likeliest; None:
            neither.
        cache_salt: requests with the same salt share the prompt cache; None: nothing is shared.
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
    """The sampler has begun, if it reports that."""

    cached: int


@dataclass(frozen=True)
class SampledToken:
    """A token, as the sampler reports it.

    Args:
        logprob: the logarithm of the model's probability; None: not reported.
        top: the most likely tokens in its place, with their logarithms.
    """

    token: int
    logprob: float | None = None
    top: Mapping[int, float] = field(default_factory=dict[int, float])


class EndReason(StrEnum):
    """Why a stream has ended: an end token, or the maximum number of tokens."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True)
class EngineVersion:
    """The model and version that have written a reply, in the engine's own names.

    Args:
        build: the engine and its configuration; None: not reported.
        weights: the version of its weights, which may change while it runs; None: not reported.
    """

    build: str | None = None
    weights: str | None = None


@dataclass(frozen=True)
class SampleEnd:
    """The end of a stream, as the sampler reports it. A stream without one was cut.

    Args:
        count: the number of sent tokens, with end tokens; None: not reported.
        cached: the number of prompt tokens from the cache; None: not reported.
        sampled: the number of sampled tokens; None: the number of sent tokens.
    """

    reason: EndReason
    count: int | None = None
    cached: int | None = None
    sampled: int | None = None
    version: EngineVersion = EngineVersion()


Sampled: TypeAlias = SampleStart | SampledToken | SampleEnd


class RemoteTokenizer(Protocol):
    """The tokenizer of an engine, for comparison with the local vocabulary."""

    async def tokenize(self, text: str) -> list[int]:
        """Tokenizes a text, in which names of special tokens are these tokens; no BOS. Raises
        RemoteError."""
        ...

    async def detokenize(self, tokens: list[int]) -> str:
        """Returns the text of tokens, special ones by their names; raises RemoteError."""
        ...


class TokenSampler(Protocol):
    """Samples the tokens of replies under their grammars. Its methods run in one event loop."""

    @property
    def name(self) -> str:
        """A name with the engine and its place, for people."""
        ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def limits(self) -> SamplerLimits: ...

    def check(self, request: SampleRequest) -> None:
        """Raises RequestError for an option that the sampler would ignore."""
        ...

    def open(self, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        """Samples tokens until an end. Closing the generator aborts the request at the sampler.

        Raises:
            RemoteError: the sampler cannot be reached, refuses the request, or sends an invalid
                reply.
        """
        ...

    async def close(self) -> None:
        """Closes the connections; further calls do nothing."""
        ...
