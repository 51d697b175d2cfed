"""A client of vLLM: token ids to `/v1/completions`, with the grammar as a structured output.

Source: docs.vllm.ai, "OpenAI-Compatible Server" and "Structured Outputs", `entrypoints/openai` of
vLLM 0.33, and replies of vLLM 0.32. Its guidance backend takes Lark; if its matcher fails, it ends
the turn as if it were complete, which is refused here. Errors of its engine have status 200, and
come in the first event of the stream.
"""

import re
import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.prompt.cache_scope import COMMON
from constrained.remote.engines.http_client import HttpClient
from constrained.remote.engines.http_sampler import (
    HttpSampler,
    HttpTokenizer,
    check_prompt,
    read_count,
    read_ids,
    read_logprob,
    refuse,
)
from constrained.remote.engines.sampling_fields import (
    SamplingBounds,
    check_sampling,
    write_sampling,
)
from constrained.remote.identity import EngineFacts
from constrained.remote.sampler import (
    LACKS,
    EndReason,
    EngineVersion,
    Sampled,
    SampledToken,
    SampleEnd,
    SampleRequest,
    SamplerLimits,
)
from grammars.schema.json_values import Json

REQUESTS = 256
"""vLLM's default limit of sequences; it does not report its own limit."""
TOKEN = "token_id:"
MASKED = -9999.0
"""What vLLM writes for minus infinity: its probabilities are those after the mask, and if the mask
leaves few tokens, it fills up the alternatives with some that cannot be sampled."""
REASONS = {"stop": EndReason.STOP, "length": EndReason.LENGTH}
STARTED = re.compile(r"^process_start_time_seconds (\S+)$", re.MULTILINE)
"""A figure of /metrics; with several API servers (--api-server-count), it does not exist."""
BOUNDS = SamplingBounds(temperature=2.0)
GRAMMAR_HINT = (
    "Start it with --structured-outputs-config.backend guidance, and without --reasoning-parser"
)


@dataclass(frozen=True, kw_only=True)
class VllmFacts(EngineFacts):
    """The properties that a vLLM server reports.

    Args:
        path: the source of its weights.
        context_length: of a sequence, in tokens.
    """

    model: str
    path: str
    context_length: int


async def read_facts(client: HttpClient) -> VllmFacts:
    """Asks a vLLM server for its properties; raises RemoteError."""
    models = await client.get("/v1/models")
    match models.get("data"):
        case [{"id": str(name)} as model, *_]:
            pass
        case _:
            raise refuse(str(client.address), models, "it names no model")
    started = STARTED.search(await client.get_text("/metrics") or "")
    return VllmFacts(
        model=name,
        path=str(model.get("root", "")),
        context_length=read_count(str(client.address), model, "max_model_len"),
        start=started[1] if started else "",
    )


def make_tokenizer(client: HttpClient, model: str) -> HttpTokenizer:
    """Makes the tokenizer of a vLLM server."""
    return HttpTokenizer(
        client,
        text="prompt",
        joined="prompt",
        cutting={"model": model, "add_special_tokens": False},
        joining={"model": model},
    )


class VllmSampler(HttpSampler):
    """A `TokenSampler` at a vLLM server.

    Args:
        sequences: the maximum number of simultaneous requests.
    """

    def __init__(
        self,
        client: HttpClient,
        vocabulary: Vocabulary,
        facts: VllmFacts,
        sequences: int | None = None,
    ):
        limits = SamplerLimits(facts.context_length, sequences or REQUESTS, LACKS)
        super().__init__(client, vocabulary, limits)
        self._model = facts.model

    def check(self, request: SampleRequest) -> None:
        check_sampling(request.sampling, self.name, BOUNDS)

    async def open(self, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        reader = _ChunkReader(self.name, request.prompt)
        events = self._client.stream("/v1/completions", self._write(request))
        try:
            async for event in events:
                for sampled in reader.read(event):
                    yield sampled
        finally:
            await events.aclose()
        if reader.end is not None:
            yield reader.end

    def _write(self, request: SampleRequest) -> Json:
        body: Json = {
            "model": self._model,
            "prompt": list(request.prompt),
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "return_weight_versions": True,
            "skip_special_tokens": False,
            "ignore_eos": request.ignore_eos,
            **write_sampling(request.sampling, self.vocabulary, request.grammar),
        }
        if request.cache_salt != COMMON:
            # A random salt is unknown to others, so nobody finds what was computed.
            body["cache_salt"] = request.cache_salt or secrets.token_hex(16)
        if request.sampling.seed is not None:
            body["seed"] = request.sampling.seed
        if request.logprobs is not None:
            body["logprobs"] = request.logprobs
        if request.grammar is not None:
            body["structured_outputs"] = {"grammar": request.grammar}
        return body


class _ChunkReader:
    """Reads the chunks of one reply.

    Args:
        prompt: the token ids that were sent.

    Attributes:
        end: of the reply, once its reason is known; the figures may come later.
    """

    def __init__(self, engine: str, prompt: Sequence[int]):
        self._engine = engine
        self._prompt = list(prompt)
        self.end: SampleEnd | None = None

    def read(self, event: Json) -> Iterator[SampledToken]:
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise refuse(self._engine, event, "it has no choices")
        for choice in choices:
            if not isinstance(choice, dict) or self.end is not None:
                raise refuse(self._engine, event, "it continues after the end")
            if choice.get("prompt_token_ids") not in (None, self._prompt):
                raise refuse(self._engine, event, "it read another prompt")
            tokens = read_ids(self._engine, choice, "token_ids")
            if choice.get("text") and "token_ids" not in choice:
                raise refuse(self._engine, event, "it has no token_ids: vLLM 0.11 or later does")
            yield from self._read_tokens(choice, tokens)
            if choice.get("finish_reason") is not None:
                reason = REASONS.get(str(choice["finish_reason"]))
                if reason is None:
                    raise refuse(self._engine, event, "it ended for an unexpected reason")
                weights = _read_versions(choice.get("weight_versions"))
                self.end = SampleEnd(reason, version=EngineVersion(weights=weights))
        if self.end is not None:
            self._read_figures(event, self.end)

    def _read_figures(self, event: Json, end: SampleEnd) -> None:
        """Reads the figures of the last event, which comes after the choices."""
        build = event.get("system_fingerprint")
        if isinstance(build, str):
            self.end = end = replace(end, version=replace(end.version, build=build))
        usage = event.get("usage")
        if not isinstance(usage, dict):
            return
        check_prompt(self._engine, usage, "prompt_tokens", len(self._prompt))
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        count = read_count(self._engine, usage, "completion_tokens")
        self.end = replace(end, count=count, cached=cached if type(cached) is int else None)

    def _read_tokens(self, choice: Json, tokens: list[int]) -> Iterator[SampledToken]:
        logprobs = choice.get("logprobs")
        if not logprobs:
            yield from map(SampledToken, tokens)
            return
        own: list[Any] = []
        top: list[Any] = []
        match logprobs:
            case {"token_logprobs": [*own], "top_logprobs": [*top]}:
                pass
            case {"token_logprobs": [*own]}:
                top = [None] * len(tokens)
            case _:
                pass
        if not len(own) == len(top) == len(tokens):
            raise refuse(self._engine, choice, "the numbers of probabilities and tokens differ")
        for token, logprob, others in zip(tokens, own, top, strict=True):
            likely = self._read_top(choice, others)
            yield SampledToken(token, self._read_logprob(choice, logprob), likely)

    def _read_top(self, choice: Json, alternatives: Any) -> dict[int, float]:
        top: dict[int, float] = {}
        if alternatives and not isinstance(alternatives, dict):
            raise refuse(self._engine, choice, "top_logprobs are not objects")
        for name, logprob in (alternatives or {}).items():
            number = name.removeprefix(TOKEN)
            if not (number.isascii() and number.isdecimal()):
                raise refuse(self._engine, choice, f"{name!r} is not a token id")
            read = self._read_logprob(choice, logprob)
            if read > MASKED:
                top[int(number)] = read
        return top

    def _read_logprob(self, choice: Json, value: Any) -> float:
        return read_logprob(self._engine, choice, value)


def _read_versions(spans: Any) -> str | None:
    """Returns the versions of the weights that wrote a reply, in order; None: not reported."""
    if not isinstance(spans, list):
        return None
    versions = [str(span.get("version")) for span in spans if isinstance(span, dict)]
    return ", ".join(versions) or None
