"""A vLLM server as of version 0.33, as far as the wire goes: fields that it takes and refuses,
bodies of errors, chunks. The names are those of its `entrypoints/openai`. `make test-vllm` holds it
against a real one of version 0.32."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import llguidance
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from constrained.engine.vocabulary.vocabulary import Vocabulary, build_tokenizer
from constrained.errors import GrammarError
from constrained.prompt.cache_scope import COMMON
from constrained.remote.sampler import (
    EndReason,
    Sampled,
    SampledToken,
    SampleEnd,
    SampleRequest,
    TokenSampler,
)
from tests.constrained.remote.stand_in_parts import (
    REQUEST,
    Json,
    Sample,
    Seen,
    StandInFacts,
    draw_steps,
    read_sampling,
    stream,
)

MODEL = "served"
MAX_LOGPROBS = 20
MAX_SALT = 128
NOT_IN_SALT = frozenset("@/\\\0")
MASKED = -9999.0
RANGES = (
    ("temperature", 0.0, 2.0),
    ("top_p", 1e-9, 1.0),
    ("min_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("repetition_penalty", 1e-9, 1e9),
    ("top_k", -1, 2**31),
    ("max_tokens", 1, 2**31),
)
NAMED = ("temperature", "top_p", "max_tokens")
"""Fields whose name stands in the error of a value that is out of range."""
SEEDS = range(-(2**63), 2**63)


class VllmRefusalError(Exception):
    """A request that vLLM refuses.

    Args:
        message: why.
        param: the field.
        status: of HTTP.

    Attributes:
        body: of the answer.
    """

    def __init__(self, message: str, param: str | None = None, status: int = 400):
        super().__init__(message)
        kind = {400: "BadRequestError", 404: "NotFoundError"}[status]
        error = {"message": message, "type": kind, "param": param, "code": status}
        self.status = status
        self.body: Json = {"error": error}


def check_body(body: Json, context_length: int) -> None:
    """Raises VllmRefusalError where vLLM's HTTP server answers 400 or 404; it ignores what it does
    not know."""
    if body.get("model") not in (None, MODEL):
        raise VllmRefusalError(f"The model `{body['model']}` does not exist.", "model", 404)
    prompt = body.get("prompt")
    if prompt is None:
        raise VllmRefusalError(
            "Either prompt or prompt_embeds must be provided and non-empty.", "prompt"
        )
    if not prompt:
        raise VllmRefusalError("You must pass at least one prompt")
    if body.get("seed") is not None and body["seed"] not in SEEDS:
        raise VllmRefusalError("1 validation error: Input should be less", "body.seed")
    if len(prompt) > context_length:
        message = f"This model's maximum context length is {context_length} tokens."
        raise VllmRefusalError(message, "input_tokens")
    room = context_length - len(prompt)
    for name, least, most in RANGES:
        value = body.get(name)
        if name == "max_tokens":
            value = min(16 if value is None else value, room)
        if value is not None and not least <= value <= most:
            param = name if name in NAMED else None
            raise VllmRefusalError(f"{name} must be in [{least}, {most}], got {value}.", param)
    if body.get("stream_options") and not body.get("stream"):
        raise VllmRefusalError(
            "Stream options can only be defined when `stream=True`.", "stream_options"
        )
    salt = body.get("cache_salt")
    if salt is not None and (not 1 <= len(salt) <= MAX_SALT or NOT_IN_SALT.intersection(salt)):
        raise VllmRefusalError("cache_salt must be at most 128 characters", "cache_salt")


def check_with_engine(body: Json, vocabulary: Vocabulary) -> None:
    """Raises VllmRefusalError where vLLM's engine refuses: behind status 200, in the first event of
    a stream."""
    for token in body["prompt"]:
        if token >= len(vocabulary.tokens):
            raise VllmRefusalError(f"Token id {token} is out of vocabulary")
    if (body.get("logprobs") or 0) > MAX_LOGPROBS:
        raise VllmRefusalError(f"greater than max allowed: {MAX_LOGPROBS}", "logprobs")
    biases = body.get("logit_bias") or {}
    if not all(0 <= int(token) < len(vocabulary.tokens) for token in biases):
        raise VllmRefusalError(
            "token_id(s) in logit_bias contain out-of-vocab token ids", "logit_bias"
        )
    grammar = _find_grammar(body)
    if grammar is None:
        return
    if not grammar:
        raise VllmRefusalError("structured_outputs.grammar cannot be an empty string")
    try:
        serialized = llguidance.grammar_from("grammar", grammar)
    except ValueError as error:
        raise VllmRefusalError(f"Invalid grammar specification: {error}") from error
    # Without the vocabulary: a token that there is not is found too late for a refusal.
    problem = llguidance.LLMatcher.validate_grammar(serialized, None)
    if problem:
        raise VllmRefusalError(f"Grammar error: {problem}")


def _find_grammar(body: Json) -> str | None:
    return (body.get("structured_outputs") or {}).get("grammar")


class _Mask:
    """Says which tokens a grammar allows at a place of a reply.

    Args:
        grammar: of the reply; None: all are allowed.
        tokenizer: of llguidance.
    """

    def __init__(self, grammar: str | None, tokenizer: Any):
        self._matcher: Any = None
        if grammar is not None:
            serialized = llguidance.grammar_from("grammar", grammar)
            self._matcher = llguidance.LLMatcher(tokenizer, serialized)

    def follow(self, token: int) -> Callable[[int], bool]:
        """Goes on with a token; gives what tells whether another could have been in its place."""
        if self._matcher is None:
            return lambda other: True
        bits = self._matcher.compute_bitmask()
        self._matcher.consume_token(token)
        return lambda other: bool(bits[other // 8] >> other % 8 & 1)


def add_vllm(
    app: FastAPI,
    sample: Sample,
    sampler: TokenSampler,
    vocabulary: Vocabulary,
    seen: Seen,
    facts: StandInFacts,
) -> None:
    """Adds the routes."""
    context_length = sampler.limits.context_length
    tokenizer = build_tokenizer(sampler.vocabulary, ())

    @app.get("/v1/models")
    async def models() -> Json:
        # `created` is the time of the request, and the permission has another id each time.
        card = {"id": MODEL, "object": "model", "created": 0, "owned_by": "vllm"}
        card |= {"root": facts.path, "parent": None, "max_model_len": context_length}
        return {"object": "list", "data": [card]}

    @app.get("/metrics")
    async def metrics() -> Response:
        return PlainTextResponse(f"# TYPE x gauge\nprocess_start_time_seconds {facts.started}\n")

    @app.post("/tokenize")
    async def tokenize(body: Json) -> Json:
        assert body["model"] == MODEL
        tokens = vocabulary.encode_special(body["prompt"])
        return {"count": len(tokens), "max_model_len": context_length, "tokens": tokens}

    @app.post("/detokenize")
    async def detokenize(body: Json) -> Json:
        return {"prompt": vocabulary.text(body["tokens"]).decode("utf-8", "replace")}

    @app.post("/v1/completions")
    async def complete(raw: Request) -> Response:
        body = await raw.json()
        try:
            check_body(body, context_length)
        except VllmRefusalError as refusal:
            seen.refused.append(str(refusal))
            return JSONResponse(refusal.body, refusal.status)
        try:
            check_with_engine(body, vocabulary)
        except VllmRefusalError as refusal:
            seen.refused.append(str(refusal))
            return stream(_write_refusal(refusal), fail=_fail)
        request = replace(
            REQUEST,
            prompt=body["prompt"],
            grammar=_find_grammar(body),
            max_tokens=min(body["max_tokens"], context_length - len(body["prompt"])),
            sampling=read_sampling(body, seed=body.get("seed")),
            logprobs=body.get("logprobs"),
            ignore_eos=body["ignore_eos"],
            cache_salt=body.get("cache_salt", COMMON),
        )
        return stream(write(body, request), fail=_fail)

    async def write(body: Json, request: SampleRequest) -> AsyncGenerator[Json, None]:
        head = {"id": "cmpl-1-0", "object": "text_completion", "created": 1, "model": MODEL}
        count, is_first = 0, True
        # Probabilities are those after the mask.
        mask = _Mask(None if request.logprobs is None else request.grammar, tokenizer)
        async with aclosing(
            draw_steps(_end_where_it_fails(sample(body, request)), vocabulary)
        ) as steps:
            async for tokens, end in steps:
                count += len(tokens)
                choice = _write_choice(body, tokens, end, vocabulary, mask)
                # The prompt is in the first chunk alone, and what has its default is left out.
                choice["prompt_token_ids"] = body["prompt"] if is_first else None
                if body.get("return_weight_versions"):
                    span = {"version": facts.weights, "start": 0, "end": count}
                    choice["weight_versions"] = [span] if end else None
                is_first = False
                yield {**head, "choices": [choice], "kv_transfer_params": None}
                if end is None or not (body.get("stream_options") or {}).get("include_usage"):
                    continue
                usage: Json = {"prompt_tokens": len(body["prompt"]), "completion_tokens": count}
                usage["total_tokens"] = len(body["prompt"]) + count
                usage["prompt_tokens_details"] = {"cached_tokens": end.cached}
                yield {**head, "choices": [], "usage": usage, "system_fingerprint": facts.build}


def _fail(error: Exception) -> Json:
    message = {"message": str(error), "type": "InternalServerError", "param": None, "code": 500}
    return {"error": message}


async def _end_where_it_fails(
    answer: AsyncGenerator[Sampled, None],
) -> AsyncGenerator[Sampled, None]:
    """The mask of a matcher that fails leaves the end token alone."""
    try:
        async with aclosing(answer):
            async for sampled in answer:
                yield sampled
    except GrammarError:
        yield SampleEnd(EndReason.STOP)


async def _write_refusal(refusal: VllmRefusalError) -> AsyncGenerator[Json, None]:
    yield refusal.body


def _write_choice(
    body: Json,
    tokens: list[SampledToken],
    end: SampleEnd | None,
    vocabulary: Vocabulary,
    mask: _Mask,
) -> Json:
    ids = [sampled.token for sampled in tokens]
    choice: Json = {
        "index": 0,
        "text": vocabulary.text(id for id in ids if id not in vocabulary.end).decode(
            "utf-8", "replace"
        ),
        "logprobs": None,
        "finish_reason": str(end.reason) if end else None,
        "stop_reason": None,  # of the end token
        "token_ids": ids if body.get("return_token_ids") else None,
    }
    if body.get("logprobs") is not None:
        named = [f"token_id:{id}" for id in ids]
        own: list[float] = []
        top: list[Json] = []
        for name, sampled in zip(named, tokens, strict=True):
            is_allowed = mask.follow(sampled.token)
            logprob = max(MASKED, sampled.logprob or 0.0)
            own.append(logprob)
            # The token that was sampled comes first, and is one more than was asked for.
            others = {name: logprob}
            for id, value in sampled.top.items():
                others[f"token_id:{id}"] = value if is_allowed(id) else MASKED
            top.append(others)
        logprobs: Json = {"text_offset": [0] * len(ids), "token_logprobs": own}
        choice["logprobs"] = {**logprobs, "tokens": named, "top_logprobs": top}
    return choice
