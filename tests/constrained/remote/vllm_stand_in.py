"""A vLLM server as of version 0.33, as far as the wire goes: fields that it takes and refuses,
bodies of errors, chunks. The names are those of its `entrypoints/openai`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import llguidance
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from constrained.cache_scope import COMMON
from constrained.remote.sampler import SampledToken, SampleEnd, SampleRequest, TokenSampler
from constrained.vocabulary.vocabulary import Vocabulary, build_tokenizer
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
MAX_SALT = 1024
RANGES = (
    ("temperature", 0.0, 2.0),
    ("top_p", 1e-9, 1.0),
    ("min_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("repetition_penalty", 1e-9, 1e9),
    ("seed", -(2**63), 2**63 - 1),
    ("top_k", -1, 2**31),
    ("max_tokens", 1, 2**31),
)


class VllmRefusalError(Exception):
    """A request that vLLM refuses.

    Args:
        message: why.
        param: the field.
        status: of HTTP.
    """

    def __init__(self, message: str, param: str | None = None, status: int = 400):
        super().__init__(message)
        kind = {400: "BadRequestError", 404: "NotFoundError"}[status]
        error = {"message": message, "type": kind, "param": param, "code": status}
        self.response = JSONResponse({"error": error}, status)


def check_body(body: Json, vocabulary: Vocabulary, context_length: int) -> None:
    """Raises VllmRefusalError where vLLM answers 400 or 404; it ignores what it does not know."""
    if body.get("model") not in (None, MODEL):
        raise VllmRefusalError(f"The model `{body['model']}` does not exist.", "model", 404)
    prompt = body.get("prompt")
    if not prompt or not all(type(token) is int and token >= 0 for token in prompt):
        raise VllmRefusalError(
            "Either prompt or prompt_embeds must be provided and non-empty.", "prompt"
        )
    if max(prompt) >= len(vocabulary.tokens):
        raise VllmRefusalError(f"Token id {max(prompt)} is out of vocabulary")
    for name, least, most in RANGES:
        value = body.get(name)
        if value is not None and not least <= value <= most:
            raise VllmRefusalError(f"{name} must be in [{least}, {most}], got {value}.", name)
    if (body.get("logprobs") or 0) > MAX_LOGPROBS:
        raise VllmRefusalError(f"greater than max allowed: {MAX_LOGPROBS}", "logprobs")
    if body.get("stream_options") and not body.get("stream"):
        raise VllmRefusalError(
            "Stream options can only be defined when `stream=True`.", "stream_options"
        )
    salt = body.get("cache_salt")
    if salt is not None and not 1 <= len(salt) <= MAX_SALT:
        raise VllmRefusalError("cache_salt has to be a text of 1 to 1024 characters", "cache_salt")
    if len(prompt) + body.get("max_tokens", 16) > context_length:
        raise VllmRefusalError(f"This model's maximum context length is {context_length} tokens.")
    biases = body.get("logit_bias") or {}
    if not all(0 <= int(token) < len(vocabulary.tokens) for token in biases):
        raise VllmRefusalError(
            "token_id(s) in logit_bias contain out-of-vocab token ids", "logit_bias"
        )


def check_grammar(grammar: str | None, tokenizer: Any) -> None:
    """Raises VllmRefusalError for a grammar that its guidance backend does not compile."""
    if grammar is None:
        return
    try:
        serialized = llguidance.grammar_from("grammar", grammar)
    except ValueError as error:
        raise VllmRefusalError(f"Invalid grammar specification: {error}") from error
    problem = llguidance.LLMatcher.validate_grammar(serialized, tokenizer)
    if problem:
        raise VllmRefusalError(f"Grammar error: {problem}")


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
        grammar = (body.get("structured_outputs") or {}).get("grammar")
        try:
            check_body(body, vocabulary, context_length)
            check_grammar(grammar, tokenizer)
        except VllmRefusalError as refusal:
            seen.refused.append(str(refusal))
            return refusal.response
        request = replace(
            REQUEST,
            prompt=body["prompt"],
            grammar=grammar,
            max_tokens=body["max_tokens"],
            sampling=read_sampling(body, seed=body.get("seed")),
            logprobs=body.get("logprobs"),
            ignore_eos=body["ignore_eos"],
            cache_salt=body.get("cache_salt", COMMON),
        )
        return stream(write(body, request), fail=_fail)

    async def write(body: Json, request: SampleRequest) -> AsyncGenerator[Json, None]:
        head = {"id": "cmpl-1-0", "object": "text_completion", "created": 1, "model": MODEL}
        count, is_first = 0, True
        async with aclosing(draw_steps(sample(body, request), vocabulary)) as steps:
            async for tokens, end in steps:
                count += len(tokens)
                choice = _write_choice(body, tokens, end, vocabulary)
                # The prompt is in the first chunk alone, and what has its default is left out.
                choice["prompt_token_ids"] = body["prompt"] if is_first else None
                if body.get("return_weight_versions"):
                    span = {"version": facts.weights, "start": 0, "end": count}
                    choice["weight_versions"] = [span] if end else None
                is_first = False
                yield {**head, "choices": [choice], "kv_transfer_params": None}
                if end is None:
                    continue
                usage: Json = {"prompt_tokens": len(body["prompt"]), "completion_tokens": count}
                usage["total_tokens"] = len(body["prompt"]) + count
                usage["prompt_tokens_details"] = {"cached_tokens": end.cached}
                yield {**head, "choices": [], "usage": usage, "system_fingerprint": facts.build}


def _fail(error: Exception) -> Json:
    message = {"message": str(error), "type": "InternalServerError", "param": None, "code": 500}
    return {"error": message}


def _write_choice(
    body: Json, tokens: list[SampledToken], end: SampleEnd | None, vocabulary: Vocabulary
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
            drawn = max(-9999.0, sampled.logprob or 0.0)
            own.append(drawn)
            # The token that was drawn comes first, and is one more than was asked for.
            others = {f"token_id:{id}": value for id, value in sampled.top.items()}
            top.append({name: drawn, **others})
        logprobs: Json = {"text_offset": [0] * len(ids), "token_logprobs": own}
        choice["logprobs"] = {**logprobs, "tokens": named, "top_logprobs": top}
    return choice
