"""A client of llama-server with llguidance: token ids to `/completion`, its template and limits.

Source: tools/server/README.md of llama.cpp. If it cannot read a grammar, or the grammar fails
during generation, it silently drops the grammar; the tokens that it then sends are refused here,
one by one.
"""

import math
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary, ends_inside
from constrained.remote.engines.http_client import HttpClient
from constrained.remote.engines.http_sampler import (
    HttpSampler,
    HttpTokenizer,
    check_prompt,
    list_unwritten,
    read_count,
    read_ids,
    read_logprob,
    refuse,
    refuse_more,
)
from constrained.remote.identity import EngineFacts
from constrained.remote.sampler import (
    LACKS,
    EndReason,
    Lack,
    Sampled,
    SampledToken,
    SampleEnd,
    SampleRequest,
    SamplerLimits,
    SampleStart,
)
from grammars.schema.json_values import Json

LAST_FIELDS = (
    "content",
    "tokens",
    "stop",
    "stop_type",
    "tokens_predicted",
    "truncated",
    "timings/cache_n",
    "error",
)
"""Fields of the last event; without this choice, it repeats the prompt and the grammar."""
MAX_BYTES = 256  # of a part without ids; a character has up to 4, several may come together
REPLACED = "\ufffd"
REASONS = {"eos": EndReason.STOP, "limit": EndReason.LENGTH}
GRAMMAR_HINT = (
    "It needs llguidance: build llama.cpp with -DLLAMA_LLGUIDANCE=ON, or install xllamacpp"
)


@dataclass(frozen=True, kw_only=True)
class LlamaServerFacts(EngineFacts):
    """The properties that a llama-server reports.

    Args:
        context_length: of one slot, in tokens.
        templates: its chat templates; the default one has the key "".
        model: the path of its model, on its machine.
        weights: their number, size and type, as far as it reports them.
    """

    context_length: int
    slots: int
    templates: Mapping[str, str]
    model: Path
    weights: Mapping[str, Any]

    @property
    def vocabulary_size(self) -> int | None:
        """The number of tokens; None: not reported."""
        size = self.weights.get("n_vocab")
        return size if type(size) is int else None


async def read_facts(client: HttpClient) -> LlamaServerFacts:
    """Asks a llama-server for its properties; raises RemoteError."""
    engine = str(client.address)
    props = await client.get("/props")
    settings = props.get("default_generation_settings")
    if not isinstance(settings, dict):
        raise refuse(engine, props, "/props has no default_generation_settings")
    templates: dict[str, str] = {}
    for name, field in (("", "chat_template"), ("tool_use", "chat_template_tool_use")):
        if isinstance(props.get(field), str) and props[field]:
            templates[name] = props[field]
    weights: Mapping[str, Any] = {}
    match (await client.get("/v1/models")).get("data"):
        case [{"meta": dict(meta)}, *_]:
            weights = meta
        case _:
            pass
    return LlamaServerFacts(
        context_length=read_count(engine, settings, "n_ctx"),
        slots=read_count(engine, props, "total_slots"),
        templates=templates,
        model=Path(str(props.get("model_path", ""))),
        weights=weights,
        # Each process picks its own random marker.
        start=f"{props.get('build_info', '')} {props.get('media_marker', '')}",
    )


def make_tokenizer(client: HttpClient) -> HttpTokenizer:
    """Makes the tokenizer of a llama-server."""
    cutting = {"add_special": False, "parse_special": True}
    return HttpTokenizer(client, text="content", joined="content", cutting=cutting, joining={})


class LlamaServerSampler(HttpSampler):
    """A `TokenSampler` at a llama-server.

    Its prompt cache does not know salts. While all requests have the same salt, they share the
    cache; once a request has another one, no request reads from the cache any more.

    Args:
        sequences: the maximum number of simultaneous requests; None: the number of its slots.
    """

    def __init__(
        self,
        client: HttpClient,
        vocabulary: Vocabulary,
        facts: LlamaServerFacts,
        sequences: int | None = None,
    ):
        slots = sequences or facts.slots
        limits = SamplerLimits(facts.context_length, slots, (*LACKS, Lack.SALTS))
        super().__init__(client, vocabulary, limits)
        self._lost = LostTokens(vocabulary)
        self._salts: set[str | None] = set()  # the first two

    async def open(self, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        reader = _TokenReader(self.name, len(request.prompt), self.vocabulary, self._lost)
        events = self._client.stream("/completion", self._write(request))
        try:
            async for event in events:
                for sampled in reader.read(event):
                    if isinstance(sampled, SampleEnd):
                        await refuse_more(self.name, events)
                    yield sampled
        finally:
            await events.aclose()

    def _write(self, request: SampleRequest) -> Json:
        sampling = request.sampling
        body: Json = {
            "prompt": list(request.prompt),
            "n_predict": request.max_tokens,
            "stream": True,
            "return_tokens": True,
            "return_progress": True,
            "response_fields": list(LAST_FIELDS),
            "cache_prompt": self._may_share(request.cache_salt),
            "ignore_eos": request.ignore_eos,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repeat_penalty": sampling.repeat_penalty,
            "repeat_last_n": sampling.penalty_last_n,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "logit_bias": [_write_bias(token, bias) for token, bias in sampling.biases],
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if request.logprobs is not None:
            body["n_probs"] = max(1, request.logprobs)
        if request.grammar is not None:
            body["grammar"] = request.grammar
            banned = list_unwritten(self.vocabulary, request.grammar)
            body["logit_bias"] += [_write_bias(token, -math.inf) for token in banned]
        return body

    def _may_share(self, salt: str | None) -> bool:
        if len(self._salts) < 2:
            self._salts.add(salt)
        return salt is not None and len(self._salts) == 1


def _write_bias(token: int, bias: float) -> list[Any]:
    return [token, False if bias == -math.inf else bias]


class LostTokens:
    """Finds the ids of tokens that were sampled but not sent, by the bytes that they spell.

    It streams no event while the text ends inside a UTF-8 character: the ids of all tokens of a
    character except the last are lost. The event that completes the character has their number and
    their text. If several tokens spell the same bytes, any of them gives the same reply.
    """

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        ordinary: dict[bytes, int] = {}
        for token, data in enumerate(self._vocabulary.tokens):
            if data and token not in self._vocabulary.structural:
                ordinary.setdefault(data, token)
        return ordinary

    def find(self, data: bytes, count: int) -> list[int] | None:
        """Finds `count` tokens that spell these bytes, each ending inside a character; None: there
        are none."""
        if len(data) > MAX_BYTES or count > len(data):
            return None
        # For each offset: the tokens that lead to it, by their number.
        paths: list[dict[int, list[int]]] = [{} for _ in range(len(data) + 1)]
        paths[0][0] = []
        for start in range(len(data)):
            for used, tokens in paths[start].items():
                for end in range(start + 1, len(data) + 1):
                    token = self._ids.get(data[start:end])
                    if token is not None and used < count and ends_inside(data[:end]):
                        paths[end].setdefault(used + 1, [*tokens, token])
        return paths[-1].get(count)


class _TokenReader:
    """Reads the events of one reply."""

    def __init__(self, engine: str, prompt: int, vocabulary: Vocabulary, lost: LostTokens):
        self._engine = engine
        self._prompt = prompt
        self._vocabulary = vocabulary
        self._lost = lost
        self._count = 0  # sampled tokens so far
        self._sent = 0  # tokens read so far

    def read(self, event: Json) -> Iterator[Sampled]:
        if "prompt_progress" in event:  # such an event has no real token
            yield self._read_start(event)
            return
        tokens = read_ids(self._engine, event, "tokens")
        content = event.get("content")
        if not isinstance(content, str):
            raise refuse(self._engine, event, "content is not text")
        size = len(self._vocabulary.tokens)
        if any(not 0 <= token < size for token in tokens):
            raise refuse(self._engine, event, f"there are only tokens from 0 to {size - 1}")
        count = read_count(self._engine, event, "tokens_predicted")
        missing = count - self._count - len(tokens)
        self._count = count
        is_last = event.get("stop") is True
        if missing and (missing < 0 or not (content or is_last)):
            raise refuse(self._engine, event, f"tokens were lost or came twice ({-missing:+})")
        if content or tokens:
            found = self._find_missing(event, content, tokens, missing)
            if found is None:
                # The bytes were not UTF-8. They are not sent: the text has replacement marks
                # instead.
                found, tokens = self._vocabulary.encode(content), []
            self._sent += len(found) + len(tokens)
            yield from map(SampledToken, found)
            yield from self._read_tokens(event, tokens)
        if is_last:
            yield self._read_end(event)

    def _find_missing(
        self, event: Json, content: str, tokens: list[int], missing: int
    ) -> list[int] | None:
        """Finds tokens of which the event has the text, but not the ids; they come before
        those that have ids. None: the text does not determine them."""
        known = b"".join(self._spell(token) for token in tokens)
        if not missing:
            if not _is_alike(content, known):
                raise refuse(self._engine, event, "the text does not match the tokens")
            return []
        written = content.encode("utf-8", "replace")
        found = None
        if written.endswith(known):
            found = self._lost.find(written[: len(written) - len(known)], missing)
        if found is None and REPLACED not in content:
            raise refuse(self._engine, event, f"{missing} tokens before it were not sent")
        return found

    def _spell(self, token: int) -> bytes:
        """Returns the bytes that llama-server writes for a token; empty for special tokens."""
        vocabulary = self._vocabulary
        return b"" if token in vocabulary.control else vocabulary.tokens[token]

    def _read_tokens(self, event: Json, tokens: list[int]) -> Iterator[SampledToken]:
        rows = event.get("completion_probabilities")
        if not rows or not tokens:
            yield from map(SampledToken, tokens)
            return
        if not isinstance(rows, list) or len(rows) != len(tokens):
            raise refuse(self._engine, event, "the numbers of probabilities and tokens differ")
        for token, shown in zip(tokens, rows, strict=True):
            match shown:
                case {"id": int(id), "logprob": value, "top_logprobs": [*likely]} if id == token:
                    own = read_logprob(self._engine, event, value)
                    yield SampledToken(token, own, self._read_top(event, likely))
                case _:
                    raise refuse(self._engine, event, "the probability is of another token")

    def _read_top(self, event: Json, likely: list[Any]) -> dict[int, float]:
        top: dict[int, float] = {}
        for one in likely:
            match one:
                case {"id": int(id), "logprob": value}:
                    top[id] = read_logprob(self._engine, event, value)
                case _:
                    raise refuse(self._engine, event, f"{one!r} is not a probability of a token")
        return top

    def _read_start(self, event: Json) -> SampleStart:
        progress = event["prompt_progress"]
        if not isinstance(progress, dict) or self._sent or event.get("stop") is True:
            raise refuse(self._engine, event, "it reads the prompt after the first token")
        check_prompt(self._engine, progress, "total", self._prompt)
        return SampleStart(read_count(self._engine, progress, "cache"))

    def _read_end(self, event: Json) -> SampleEnd:
        reason = REASONS.get(str(event.get("stop_type")))
        if reason is None or event.get("truncated"):
            raise refuse(self._engine, event, "it ended for an unexpected reason")
        cached = event.get("cache_n")
        if type(cached) is not int:
            cached = None
        return SampleEnd(reason, self._sent, cached, sampled=self._count)


def _is_alike(content: str, data: bytes) -> bool:
    """Returns whether the bytes have this text. Invalid UTF-8 is replaced by one mark or by
    several."""
    if content.encode("utf-8", "replace") == data:
        return True
    return _merge_marks(content) == _merge_marks(data.decode("utf-8", "replace"))


def _merge_marks(text: str) -> str:
    return re.sub(f"{REPLACED}+", REPLACED, text)
