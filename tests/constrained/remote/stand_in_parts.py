"""What the stand-ins of engines have in common: requests, steps, streams, what they note."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fastapi.responses import Response, StreamingResponse

from constrained.engine.sampling import SEEDS, Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import GrammarError
from constrained.remote.sampler import Sampled, SampledToken, SampleEnd, SampleRequest

Json: TypeAlias = dict[str, Any]
Sample: TypeAlias = Callable[[Json, SampleRequest], AsyncGenerator[Sampled, None]]
Step: TypeAlias = tuple[list[SampledToken], SampleEnd | None]
REQUEST = SampleRequest("", (), None, max_tokens=16, sampling=Sampling())


@dataclass
class Seen:
    """What a stand-in has seen.

    Attributes:
        bodies: of the requests for tokens.
        aborted: how many streams were left before their end.
        told: the names of requests that were aborted by name.
        refused: why requests were refused.
    """

    bodies: list[Json] = field(default_factory=list[Json])
    aborted: int = 0
    told: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])


@dataclass
class StandInFacts:
    """What a stand-in says of itself; it may be changed while it runs.

    Attributes:
        path: of its weights.
        weights: their version.
        build: the engine and its configuration.
        version: of the engine.
        started: when.
        has_seeds: it takes seeds of requests.
        reserved: tokens of the context that its memory has no room for.
        tells_probabilities: or refuses to.
        is_incremental: its events have the new tokens alone.
    """

    path: str = "/elsewhere/model"
    weights: str | None = "default"
    build: str = "vllm-0.33.0-0a1b2c3d"
    version: str = "0.5.23"
    started: float = 1.5
    has_seeds: bool = False
    reserved: int = 6
    tells_probabilities: bool = True
    is_incremental: bool = False


def read_sampling(fields: Json, *, seed: int | None) -> Sampling:
    """The sampling of a request in the fields that vLLM and SGLang have in common."""
    biases = {int(token): bias for token, bias in (fields.get("logit_bias") or {}).items()}
    return Sampling(
        temperature=fields["temperature"],
        top_k=max(0, fields["top_k"]),
        top_p=fields["top_p"],
        min_p=fields["min_p"],
        seed=None if seed is None else seed % SEEDS,
        logit_bias=biases,
    )


async def draw_steps(
    sampled: AsyncGenerator[Sampled, None], vocabulary: Vocabulary
) -> AsyncGenerator[Step, None]:
    """The tokens of a reply, one a step, with an end token; the last step has the end."""
    waiting: SampledToken | None = None
    async with aclosing(sampled) as tokens:
        async for one in tokens:
            match one:
                case SampledToken():
                    if waiting is not None:
                        yield [waiting], None
                    waiting = one
                case SampleEnd(reason="stop"):
                    if waiting is not None:
                        yield [waiting], None
                    yield [SampledToken(vocabulary.end[0])], one
                case SampleEnd():
                    yield [waiting] if waiting is not None else [], one
                case _:
                    pass


def stream(
    events: AsyncGenerator[Json, None], *, fail: Callable[[Exception], Json] | None = None
) -> Response:
    """A stream of events, and the mark after the last one.

    Args:
        events: of the reply.
        fail: gives the event of an error; None: that of a llama-server.
    """

    async def write() -> AsyncGenerator[bytes, None]:
        try:
            async for event in events:
                yield f"data: {json.dumps(event)}\n\n".encode()
        except (GrammarError, ValueError) as error:
            told = fail(error) if fail else {"error": {"message": str(error)}}
            yield f"data: {json.dumps(told)}\n\n".encode()
        finally:
            await events.aclose()
        if fail is not None:
            yield b"data: [DONE]\n\n"

    return StreamingResponse(write(), media_type="text/event-stream")
