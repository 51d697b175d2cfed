"""SGLang: token ids to `/generate`, with the grammar as its `ebnf`.

Source: docs.sglang.io, "Native API" and "Sampling Parameters". Only its llguidance backend takes
Lark.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from constrained.cache_scope import COMMON
from constrained.errors import RemoteError, RequestError
from constrained.remote.engines.answers import read_count, read_ids, read_logprob, refuse
from constrained.remote.engines.http_client import HttpClient, Json
from constrained.remote.engines.http_sampler import HttpSampler, HttpTokenizer, refuse_more
from constrained.remote.engines.sampling_fields import check_sampling, write_sampling
from constrained.remote.sampler import (
    LACKS,
    EndReason,
    Lack,
    Sampled,
    SampledToken,
    SampleEnd,
    SampleRequest,
    SamplerLimits,
)
from constrained.vocabulary.vocabulary import Vocabulary

REQUESTS = 256
BACKEND = "llguidance"
REASONS = {"stop": EndReason.STOP, "length": EndReason.LENGTH}
GRAMMAR_HINT = f"Start it with --grammar-backend {BACKEND}, and without --reasoning-parser"


@dataclass(frozen=True)
class SglangFacts:
    """What an SGLang server says of itself: tokens of a sequence."""

    context_length: int


async def read_facts(client: HttpClient) -> SglangFacts:
    """Asks an SGLang server what it is.

    Raises:
        RemoteError: it does not say, or its grammars are not those of llguidance.
    """
    engine = str(client.address)
    info = await client.get("/get_server_info")
    backend = info.get("grammar_backend")
    if backend != BACKEND:
        raise RemoteError(f"{engine}: its grammar backend is {backend}", hint=GRAMMAR_HINT)
    answer = await client.post("/tokenize", {"prompt": "a", "add_special_tokens": False})
    return SglangFacts(read_count(engine, answer, "max_model_len"))


def make_tokenizer(client: HttpClient) -> HttpTokenizer:
    """The tokenizer of an SGLang server."""
    return HttpTokenizer(
        client,
        text="prompt",
        joined="text",
        cutting={"add_special_tokens": False},
        joining={"skip_special_tokens": False},
    )


class SglangSampler(HttpSampler):
    """A `TokenSampler` at an SGLang server, which shares its prompt cache among all requests.

    Args:
        client: speaks to it.
        vocabulary: that it has, too.
        facts: what it says of itself.
        sequences: how many requests it gets at a time.
    """

    def __init__(
        self,
        client: HttpClient,
        vocabulary: Vocabulary,
        facts: SglangFacts,
        sequences: int | None = None,
    ):
        lacks = (*LACKS, Lack.SALTS)
        limits = SamplerLimits(facts.context_length, sequences or REQUESTS, lacks)
        super().__init__(client, vocabulary, limits)

    def check(self, request: SampleRequest) -> None:
        check_sampling(request.sampling, self.name)
        if request.sampling.seed is not None:
            message = f"{self.name} draws with no seed of a request"
            raise RequestError(message, where="/seed", hint="Leave it out")
        if request.cache_salt != COMMON:
            message = f"{self.name} shares its prompt cache among all requests"
            hint = "Leave cache_salt and cache_prompt out (serve: --share-cache)"
            raise RequestError(message, where="/cache_salt", hint=hint)

    async def open(self, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        reader = _OutputReader(self.name)
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
                with suppress(RemoteError):  # it may be gone altogether
                    await self._client.post("/abort_request", {"rid": request.name})

    def _write(self, request: SampleRequest) -> Json:
        parameters: Json = {
            **write_sampling(request.sampling),
            "max_new_tokens": request.max_tokens,
            "skip_special_tokens": False,
            "ignore_eos": request.ignore_eos,
        }
        if request.grammar is not None:
            parameters["ebnf"] = request.grammar
        body: Json = {
            "rid": request.name,
            "input_ids": list(request.prompt),
            "sampling_params": parameters,
            "stream": True,
        }
        if request.logprobs is not None:
            body |= {
                "return_logprob": True,
                "top_logprobs_num": request.logprobs,
                "logprob_start_len": -1,
            }
        return body


class _OutputReader:
    """Reads the events of one reply. Each has all tokens so far, or, with its option
    `--stream-output`, the new ones; how many are new, their count says.

    Attributes:
        is_over: the engine works on it no more.
    """

    def __init__(self, engine: str):
        self._engine = engine
        self._count = 0  # tokens so far
        self.is_over = False

    def read(self, event: Json) -> Iterator[Sampled]:
        """What an event says; raises RemoteError."""
        info = event.get("meta_info")
        if not isinstance(info, dict):
            raise refuse(self._engine, event, "it has no meta_info")
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
                yield SampleEnd(REASONS[kind], count, cached)
            case _:
                self.is_over = True
                raise refuse(self._engine, info, "it ended for no reason that was asked for")

    def _read_tokens(self, info: Json, tokens: list[int]) -> Iterator[SampledToken]:
        told = info.get("output_token_logprobs")
        if not told:
            yield from map(SampledToken, tokens)
            return
        top: list[Any] = []
        match told, info.get("output_top_logprobs"):
            case [*own], None | []:
                top = [None] * len(own)
            case [*own], [*top]:
                pass
            case _:
                own = list[Any]()
        if not len(tokens) <= len(own) == len(top):
            raise refuse(self._engine, info, "there are not as many probabilities as tokens")
        new = len(tokens)
        for token, drawn, others in zip(tokens, own[-new:], top[-new:], strict=True):
            logprob, id = self._read_pair(info, drawn)
            if id != token:
                raise refuse(self._engine, info, "the probability is not that of the token")
            likely: dict[int, float] = {}
            if others and not isinstance(others, list):
                raise refuse(self._engine, info, f"{others!r} are no probabilities")
            for other in others or []:
                value, number = self._read_pair(info, other)
                likely[number] = value
            yield SampledToken(token, logprob, likely)

    def _read_pair(self, info: Json, told: Any) -> tuple[float, int]:
        match told:
            case [value, int(id), *_]:
                return read_logprob(self._engine, info, value), id
            case _:
                raise refuse(self._engine, info, f"{told!r} is no probability of a token")
