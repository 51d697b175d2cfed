"""A client of SGLang: token ids to `/generate`, with the grammar as its `ebnf`.

Source: docs.sglang.io, "Native API" and "Sampling Parameters", and `srt/entrypoints` and
`srt/managers` of SGLang 0.5.23. Only its llguidance backend takes Lark.
"""

import json
import re
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RemoteError, RequestError
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
    refuse_more,
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
    Lack,
    Sampled,
    SampledToken,
    SampleEnd,
    SampleRequest,
    SamplerLimits,
)
from grammars.schema.json_values import Json

REQUESTS = 256
BACKEND = "llguidance"
SALTED = (0, 5, 18)
"""The first version with `cache_salt`; older ones ignore it."""
BOUNDS = SamplingBounds(repeat_penalty=2.0)
REASONS = {"stop": EndReason.STOP, "length": EndReason.LENGTH}
GRAMMAR_HINT = f"Start it with --grammar-backend {BACKEND}, and without --reasoning-parser"


@dataclass(frozen=True, kw_only=True)
class SglangFacts(EngineFacts):
    """The properties that an SGLang server reports.

    Args:
        model: the path of its weights.
        context_length: of a sequence, in tokens.
        room: how many of these tokens fit into its KV cache; it may depend on the free memory.
        has_salts: it separates the cached prompts of different salts.
        has_seeds: a request may have a seed.
    """

    model: str
    context_length: int
    room: int = field(compare=False)
    has_salts: bool
    has_seeds: bool


async def read_facts(client: HttpClient) -> SglangFacts:
    """Asks an SGLang server for its properties.

    Raises:
        RemoteError: it does not report them, or its grammar backend is not llguidance.
    """
    engine = str(client.address)
    info = await client.get("/server_info", former="/get_server_info")
    backend = info.get("grammar_backend")
    if backend != BACKEND:
        raise RemoteError(f"{engine}: its grammar backend is {backend}", hint=GRAMMAR_HINT)
    model = await client.get("/model_info", former="/get_model_info")
    listed = await client.get("/v1/models")
    match listed.get("data"):
        case [dict(first), *_]:
            context = read_count(engine, first, "max_model_len")
        case _:
            raise refuse(engine, listed, "it names no model")
    room = context
    if "max_req_input_len" in info:  # it silently shortens replies that do not fit
        room = min(context, read_count(engine, info, "max_req_input_len"))
    times = json.dumps(info.get("startup_time"), sort_keys=True)
    return SglangFacts(
        model=str(model.get("model_path", "")),
        context_length=context,
        room=room,
        has_salts=_read_version(info.get("version")) >= SALTED,
        has_seeds=info.get("enable_deterministic_inference") is True,
        start=f"{info.get('version', '')} {times}",
    )


def _read_version(text: Any) -> tuple[int, ...]:
    """Returns the first three numbers of a version; () if it is not reported."""
    return tuple(map(int, re.findall(r"\d+", str(text or ""))[:3]))


def make_tokenizer(client: HttpClient) -> HttpTokenizer:
    """Makes the tokenizer of an SGLang server."""
    return HttpTokenizer(
        client,
        text="prompt",
        joined="text",
        cutting={"add_special_tokens": False},
        joining={"skip_special_tokens": False},
    )


class SglangSampler(HttpSampler):
    """A `TokenSampler` at an SGLang server.

    Args:
        sequences: the maximum number of simultaneous requests.
    """

    def __init__(
        self,
        client: HttpClient,
        vocabulary: Vocabulary,
        facts: SglangFacts,
        sequences: int | None = None,
    ):
        lacks = LACKS if facts.has_salts else (*LACKS, Lack.SALTS)
        limits = SamplerLimits(facts.room, sequences or REQUESTS, lacks)
        super().__init__(client, vocabulary, limits)
        self._facts = facts

    async def read_facts(self) -> SglangFacts:
        """Asks the server for its properties again; its room may differ after a restart. Raises
        RemoteError."""
        facts = await read_facts(self._client)
        self.limits = replace(self.limits, context_length=facts.room)
        return facts

    def check(self, request: SampleRequest) -> None:
        check_sampling(request.sampling, self.name, BOUNDS)
        if request.sampling.seed is not None and not self._facts.has_seeds:
            message = f"{self.name} does not use the seed of a request"
            hint = "Leave it out, or start the engine with --enable-deterministic-inference"
            raise RequestError(message, where="/seed", hint=hint)
        if request.cache_salt != COMMON and not self._facts.has_salts:
            message = f"{self.name} shares its prompt cache among all requests"
            hint = "Leave cache_salt and cache_prompt out (serve: --share-cache)"
            raise RequestError(message, where="/cache_salt", hint=hint)

    async def open(self, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        reader = _OutputReader(self._client, len(request.prompt))
        events = self._client.stream("/generate", self._write(request))
        try:
            async for event in events:
                for sampled in reader.read(event):
                    if isinstance(sampled, SampleEnd):
                        reader.is_over = True
                        await refuse_more(self.name, events)
                    yield sampled
        finally:
            await events.aclose()
            if not reader.is_over:
                with suppress(RemoteError):  # the server may be down
                    await self._client.post("/abort_request", {"rid": request.name})

    def _write(self, request: SampleRequest) -> Json:
        parameters: Json = {
            **write_sampling(request.sampling, self.vocabulary, request.grammar),
            "max_new_tokens": request.max_tokens,
            "skip_special_tokens": False,
            "ignore_eos": request.ignore_eos,
        }
        if request.grammar is not None:
            parameters["ebnf"] = request.grammar
        if self._facts.has_seeds:  # without a seed, all of its replies would use the same one
            seed = request.sampling.seed
            parameters["sampling_seed"] = secrets.randbits(32) if seed is None else seed
        body: Json = {
            "rid": request.name,
            "input_ids": list(request.prompt),
            "sampling_params": parameters,
            "stream": True,
        }
        if self._facts.has_salts and request.cache_salt != COMMON:
            # A random salt is unknown to others, so nobody finds what was computed.
            body["cache_salt"] = request.cache_salt or secrets.token_hex(16)
        if request.logprobs is not None:
            body |= {
                "return_logprob": True,
                "top_logprobs_num": request.logprobs,
                "logprob_start_len": -1,
            }
        return body


class _OutputReader:
    """Reads the events of one reply. Each event has all tokens so far, or, with the engine's option
    `--incremental-streaming-output`, only the new ones; the count shows how many are new.

    Attributes:
        is_over: the engine no longer works on the reply.
    """

    def __init__(self, client: HttpClient, prompt: int):
        self._client = client
        self._engine = str(client.address)
        self._prompt = prompt
        self._count = 0  # of tokens so far
        self.is_over = False

    def read(self, event: Json) -> Iterator[Sampled]:
        info = event.get("meta_info")
        if not isinstance(info, dict):
            raise refuse(self._engine, event, "it has no meta_info")
        self._check_abort(info)
        check_prompt(self._engine, info, "prompt_tokens", self._prompt)
        tokens = read_ids(self._engine, event, "output_ids")
        count = read_count(self._engine, info, "completion_tokens")
        new = count - self._count
        if not 0 <= new <= len(tokens):
            raise refuse(self._engine, info, "tokens were lost or came twice")
        self._count = count
        if new:
            yield from self._read_tokens(info, tokens[-new:])
        match info.get("finish_reason"):
            case None:
                pass
            case {"type": str(kind)} if kind in REASONS:
                cached = info.get("cached_tokens")
                if type(cached) is not int:
                    cached = None
                weights = info.get("weight_version")
                version = EngineVersion(weights=weights if isinstance(weights, str) else None)
                yield SampleEnd(REASONS[kind], count, cached, version=version)
            case _:
                self.is_over = True
                raise refuse(self._engine, info, "it ended for an unexpected reason")

    def _check_abort(self, info: Json) -> None:
        """Raises the error of a reply that the engine has aborted, with the engine's message."""
        match info.get("finish_reason"):
            case {"type": "abort", "message": str(message), "status_code": int(status)}:
                self.is_over = True
                message = f"it has given up: {message}"
                raise self._client.refuse(status, message, has_started=self._count > 0)
            case _:
                pass

    def _read_tokens(self, info: Json, tokens: list[int]) -> Iterator[SampledToken]:
        rows = info.get("output_token_logprobs")
        if not rows:
            yield from map(SampledToken, tokens)
            return
        top: list[Any] = []
        match rows, info.get("output_top_logprobs"):
            case [*own], None | []:
                top = [None] * len(own)
            case [*own], [*top]:
                pass
            case _:
                own = list[Any]()
        if not len(tokens) <= len(own) == len(top):
            raise refuse(self._engine, info, "the numbers of probabilities and tokens differ")
        new = len(tokens)
        for token, pair, others in zip(tokens, own[-new:], top[-new:], strict=True):
            logprob, id = self._read_pair(info, pair)
            if id != token:
                raise refuse(self._engine, info, "the probability is of another token")
            likely: dict[int, float] = {}
            if others and not isinstance(others, list):
                raise refuse(self._engine, info, f"{others!r} are not probabilities")
            for other in others or []:
                value, number = self._read_pair(info, other)
                likely[number] = value
            yield SampledToken(token, logprob, likely)

    def _read_pair(self, info: Json, row: Any) -> tuple[float, int]:
        match row:
            case [value, int(id), *_]:
                return read_logprob(self._engine, info, value), id
            case _:
                raise refuse(self._engine, info, f"{row!r} is not a probability of a token")
