"""An SGLang server as of version 0.5.23, as far as the wire goes: fields that it takes and refuses,
errors inside of streams, cumulative events. The names are those of its `srt/entrypoints`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import llguidance
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from constrained.engine.vocabulary.vocabulary import Vocabulary, build_tokenizer
from constrained.prompt.cache_scope import COMMON
from constrained.remote.sampler import SampledToken, SampleEnd, SampleRequest, TokenSampler
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

RANGES = (
    ("top_p", 1e-9, 1.0),
    ("min_p", 0.0, 1.0),
    ("top_k", -1, 2**31),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("repetition_penalty", 1e-9, 2.0),
    ("max_new_tokens", 0, 2**31),
    ("sampling_seed", -(2**63), 2**63 - 1),
)


class SglangRefusalError(ValueError):
    """A request that SGLang refuses, in an event of the stream."""


def check_body(body: Json, vocabulary: Vocabulary, max_input: int) -> None:
    """Raises SglangRefusalError where SGLang does."""
    parameters = body["sampling_params"]
    for name, least, most in RANGES:
        value = parameters.get(name)
        if value is not None and not least <= value <= most:
            raise SglangRefusalError(f"{name} must be in [{least}, {most}], got {value}.")
    if len(body["input_ids"]) >= max_input:
        raise SglangRefusalError(
            f"Input length exceeds the maximum allowed length ({max_input} tokens)."
        )
    if max(body["input_ids"]) >= len(vocabulary.tokens):
        raise SglangRefusalError("input_ids contain out-of-vocab token ids")
    biases = parameters.get("logit_bias") or {}
    if not all(0 <= int(token) < len(vocabulary.tokens) for token in biases):
        raise SglangRefusalError(f"logit_bias must has keys in [0, {len(vocabulary.tokens) - 1}]")


def find_grammar_problem(grammar: str | None, tokenizer: Any) -> str | None:
    """Why llguidance does not compile a grammar; None: it does, or there is none."""
    if grammar is None:
        return None
    try:
        serialized = llguidance.grammar_from("ebnf", grammar)
    except ValueError as error:
        return str(error)
    return llguidance.LLMatcher.validate_grammar(serialized, tokenizer) or None


def add_sglang(
    app: FastAPI,
    sample: Sample,
    sampler: TokenSampler,
    vocabulary: Vocabulary,
    seen: Seen,
    facts: StandInFacts,
) -> None:
    """Adds the routes."""
    context_length = sampler.limits.context_length
    max_input = context_length - facts.reserved
    tokenizer = build_tokenizer(sampler.vocabulary, ())

    @app.get("/server_info")
    async def show_server() -> Json:
        return {
            "grammar_backend": "llguidance",
            "enable_deterministic_inference": facts.has_seeds,
            "max_req_input_len": max_input,
            "startup_time": {"total": facts.started},
            "version": facts.version,
        }

    @app.get("/model_info")
    async def show_model() -> Json:
        return {"model_path": facts.path, "weight_version": facts.weights, "is_generation": True}

    @app.get("/v1/models")
    async def models() -> Json:
        return {"data": [{"id": "m", "root": "m", "max_model_len": context_length}]}

    @app.post("/tokenize")
    async def tokenize(body: Json) -> Json:
        tokens = vocabulary.encode_special(body["prompt"])
        # What its tokenizer says, not what its engine has room for.
        return {"tokens": tokens, "count": len(tokens), "max_model_len": 131_072}

    @app.post("/detokenize")
    async def detokenize(body: Json) -> Json:
        tokens = body["tokens"]
        if body.get("skip_special_tokens", True):
            tokens = [token for token in tokens if token not in vocabulary.control]
        return {"text": vocabulary.text(tokens).decode("utf-8", "replace")}

    @app.post("/abort_request")
    async def abort(body: Json) -> Response:
        seen.told.append(body["rid"])
        return Response(status_code=200)

    @app.post("/generate")
    async def generate(body: Json) -> Response:
        if type(body.get("rid")) is not str:
            return JSONResponse({"error": "rid is no text"}, 400)
        if body.get("return_logprob") and not facts.tells_probabilities:
            return JSONResponse({"error": {"message": "no probabilities"}}, 400)
        parameters = body["sampling_params"]
        room = max(0, context_length - len(body["input_ids"]) - 2)
        request = replace(
            REQUEST,
            prompt=body["input_ids"],
            grammar=parameters.get("ebnf"),
            max_tokens=min(parameters["max_new_tokens"], room),  # without a word
            sampling=read_sampling(parameters, seed=parameters.get("sampling_seed")),
            logprobs=body.get("top_logprobs_num") if body.get("return_logprob") else None,
            ignore_eos=parameters["ignore_eos"],
            cache_salt=body.get("cache_salt", COMMON),
        )
        return stream(write(body, request), fail=_fail)

    async def write(body: Json, request: SampleRequest) -> AsyncGenerator[Json, None]:
        meta: Json = {"id": body["rid"], "prompt_tokens": len(request.prompt)}
        meta |= {"weight_version": facts.weights, "num_retractions": 0, "reasoning_tokens": 0}
        try:
            check_body(body, vocabulary, max_input)
        except SglangRefusalError as refusal:
            seen.refused.append(str(refusal))
            raise
        if problem := find_grammar_problem(request.grammar, tokenizer):
            seen.refused.append(problem)
            yield {"text": "", "output_ids": [], "meta_info": meta | _abort(problem)}
            return
        reply = _Reply(is_incremental=facts.is_incremental, logprobs=request.logprobs)
        async with aclosing(draw_steps(sample(body, request), vocabulary)) as steps:
            async for tokens, end in steps:
                yield reply.write(tokens, end, meta)


def _abort(problem: str) -> Json:
    message = f"Failed to compile ebnf grammar: {problem}"
    reason = {"type": "abort", "message": message, "status_code": 400, "err_type": None}
    return {"finish_reason": reason, "completion_tokens": 0, "cached_tokens": 0}


def _fail(error: Exception) -> Json:
    refused: Json = {"message": str(error), "type": "invalid_request_error", "code": 400}
    return {"error": {**refused, "retryable": False}}


class _Reply:
    """Writes the events of one reply.

    Args:
        is_incremental: each has the new tokens alone (`--incremental-streaming-output`).
        logprobs: so many of the likeliest tokens; None: no probabilities.
    """

    def __init__(self, *, is_incremental: bool, logprobs: int | None):
        self._is_incremental = is_incremental
        self._logprobs = logprobs
        self._ids: list[int] = []
        self._own: list[Any] = []
        self._top: list[Any] = []

    def write(self, tokens: list[SampledToken], end: SampleEnd | None, meta: Json) -> Json:
        """The event of these tokens."""
        sent = len(self._ids) if self._is_incremental else 0
        for sampled in tokens:
            self._ids.append(sampled.token)
            self._own.append([sampled.logprob or 0.0, sampled.token, None])
            self._top.append([[value, id, None] for id, value in sampled.top.items()])
        info = {**meta, "finish_reason": None, "completion_tokens": len(self._ids)}
        info["cached_tokens"] = end.cached if end else 0
        if self._logprobs is not None:
            info |= {"input_token_logprobs": [], "output_token_logprobs": self._own[sent:]}
            info["output_token_logprobs_length"] = len(self._own)
        if self._logprobs:  # none where none are asked for
            info["output_top_logprobs"] = self._top[sent:]
        if end is not None and end.reason == "stop":
            info["finish_reason"] = {"type": "stop", "matched": self._ids[-1]}
        elif end is not None:
            info["finish_reason"] = {"type": "length", "length": len(self._ids)}
        return {"text": "", "output_ids": self._ids[sent:], "meta_info": info}
