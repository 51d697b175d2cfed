"""Stand-ins of llama-server, vLLM and SGLang: real HTTP servers that speak as these do, whose
tokens come from a local engine."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse

from constrained.cache_scope import COMMON
from constrained.engine.sampling import Sampling
from constrained.errors import GrammarError
from constrained.remote.address import EngineKind
from constrained.remote.sampler import SampledToken, SampleEnd, SampleRequest, TokenSampler
from constrained.vocabulary.vocabulary import Vocabulary

Json = dict[str, Any]
REQUEST = SampleRequest("", (), None, max_tokens=16, sampling=Sampling())


@dataclass
class Seen:
    """What a stand-in has seen.

    Attributes:
        bodies: of the requests for tokens.
        aborted: how many streams were left before their end.
        told: the names of requests that were aborted by name.
    """

    bodies: list[Json] = field(default_factory=list[Json])
    aborted: int = 0
    told: list[str] = field(default_factory=list[str])


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serves an application in this process; gives its host and port."""
    config = uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def make_stand_in(
    kind: EngineKind,
    sampler: TokenSampler,
    seen: Seen,
    *,
    vocabulary: Vocabulary | None = None,
    template: str = "",
    sleep: float = 0.0,
) -> FastAPI:
    """The application of a stand-in.

    Args:
        kind: whose place it takes.
        sampler: draws its tokens.
        seen: what it notes.
        vocabulary: that it says it has; None: that of the sampler.
        template: that a llama-server tells.
        sleep: seconds in front of each token.
    """
    app = FastAPI()
    vocabulary = vocabulary or sampler.vocabulary

    async def sample(
        body: Json, request: SampleRequest
    ) -> AsyncGenerator[SampledToken | SampleEnd, None]:
        seen.bodies.append(body)
        is_over = False
        try:
            async with aclosing(sampler.open(request)) as stream:
                async for sampled in stream:
                    is_over = isinstance(sampled, SampleEnd)
                    if sleep:
                        await asyncio.sleep(sleep)
                    yield sampled
        finally:
            if not is_over:
                seen.aborted += 1

    def detokenize(tokens: list[int]) -> str:
        return vocabulary.text(tokens).decode("utf-8", "replace")

    match kind:
        case EngineKind.LLAMA_SERVER:
            _add_llama_server(app, sample, sampler, vocabulary, template=template)
        case EngineKind.VLLM:
            _add_vllm(app, sample, sampler, vocabulary)
        case EngineKind.SGLANG:
            _add_sglang(app, sample, vocabulary, seen)

    @app.post("/tokenize")
    async def tokenize(body: Json) -> Json:
        tokens = vocabulary.encode_special(body.get("content", body.get("prompt", "")))
        return {"tokens": tokens, "max_model_len": sampler.limits.context_length}

    @app.post("/detokenize")
    async def put_together(body: Json) -> Json:
        text = detokenize(body["tokens"])
        return {"content": text, "prompt": text, "text": text}

    return app


async def _write_events(events: AsyncGenerator[Json, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for event in events:
            yield f"data: {json.dumps(event)}\n\n".encode()
    except GrammarError as error:
        yield f"data: {json.dumps({'error': {'message': str(error)}})}\n\n".encode()
    finally:
        await events.aclose()


def _stream(events: AsyncGenerator[Json, None]) -> Response:
    return StreamingResponse(_write_events(events), media_type="text/event-stream")


def _add_llama_server(
    app: FastAPI, sample: Any, sampler: TokenSampler, vocabulary: Vocabulary, *, template: str
) -> None:
    @app.get("/props")
    async def props() -> Json:
        settings = {"n_ctx": sampler.limits.context_length}
        return {
            "default_generation_settings": settings,
            "total_slots": sampler.limits.sequences,
            "model_path": "/elsewhere/model.gguf",
            "chat_template": template,
        }

    @app.get("/v1/models")
    async def models() -> Json:
        return {"data": [{"id": "m", "meta": {"n_vocab": len(vocabulary.tokens)}}]}

    @app.post("/completion")
    async def complete(body: Json) -> Response:
        sampling = Sampling(
            temperature=body["temperature"],
            top_k=body["top_k"],
            top_p=body["top_p"],
            min_p=body["min_p"],
            seed=body.get("seed"),
        )
        request = replace(
            REQUEST,
            prompt=body["prompt"],
            grammar=body.get("grammar"),
            max_tokens=body["n_predict"],
            sampling=sampling,
            logprobs=body.get("n_probs"),
            ignore_eos=body["ignore_eos"],
            cache_salt=COMMON if body["cache_prompt"] else None,
        )
        return _stream(write(body, request))

    async def write(body: Json, request: SampleRequest) -> AsyncGenerator[Json, None]:
        count, unsent = 0, b""
        async with aclosing(sample(body, request)) as stream:
            async for sampled in stream:
                if isinstance(sampled, SampleEnd):
                    reason = {"stop": "eos", "length": "limit"}[sampled.reason]
                    last = {"content": "", "tokens": [], "stop": True, "stop_type": reason}
                    yield {**last, "tokens_predicted": count, "cache_n": sampled.cached}
                    return
                count += 1
                token = sampled.token
                unsent += b"" if token in vocabulary.control else vocabulary.tokens[token]
                try:
                    text = unsent.decode()
                except UnicodeDecodeError:
                    continue  # as llama-server does, which loses the token by that
                unsent = b""
                event: Json = {"content": text, "tokens": [token], "tokens_predicted": count}
                if sampled.logprob is not None:
                    top = [{"id": id, "logprob": value} for id, value in sampled.top.items()]
                    shown = {"id": token, "logprob": sampled.logprob, "top_logprobs": top}
                    event["completion_probabilities"] = [shown]
                yield event


def _read_sampling(body: Json) -> Sampling:
    return Sampling(
        temperature=body["temperature"],
        top_k=max(0, body["top_k"]),
        top_p=body["top_p"],
        min_p=body["min_p"],
        seed=body.get("seed"),
    )


def _add_vllm(app: FastAPI, sample: Any, sampler: TokenSampler, vocabulary: Vocabulary) -> None:
    @app.get("/v1/models")
    async def models() -> Json:
        return {"data": [{"id": "m", "max_model_len": sampler.limits.context_length}]}

    @app.post("/v1/completions")
    async def complete(body: Json) -> Response:
        request = replace(
            REQUEST,
            prompt=body["prompt"],
            grammar=body.get("structured_outputs", {}).get("grammar"),
            max_tokens=body["max_tokens"],
            sampling=_read_sampling(body),
            logprobs=body.get("logprobs"),
            ignore_eos=body["ignore_eos"],
            cache_salt=body.get("cache_salt", COMMON),
        )
        return _stream(write(body, request))

    async def write(body: Json, request: SampleRequest) -> AsyncGenerator[Json, None]:
        count = 0
        async with aclosing(sample(body, request)) as stream:
            async for sampled in stream:
                if isinstance(sampled, SampleEnd):
                    # vLLM sends the end token, too.
                    ends = [vocabulary.end[0]] if sampled.reason == "stop" else []
                    last = {"index": 0, "text": "", "token_ids": ends}
                    yield {"choices": [{**last, "finish_reason": str(sampled.reason)}]}
                    details = {"cached_tokens": sampled.cached}
                    usage: Json = {"completion_tokens": count + len(ends)}
                    yield {"choices": [], "usage": {**usage, "prompt_tokens_details": details}}
                    return
                count += 1
                text = vocabulary.text([sampled.token]).decode("utf-8", "replace")
                choice: Json = {"index": 0, "text": text, "token_ids": [sampled.token]}
                if sampled.logprob is not None:
                    top = {f"token_id:{id}": value for id, value in sampled.top.items()}
                    choice["logprobs"] = {
                        "tokens": [f"token_id:{sampled.token}"],
                        "token_logprobs": [sampled.logprob],
                        "top_logprobs": [top],
                    }
                yield {"choices": [{**choice, "finish_reason": None}]}


def _add_sglang(app: FastAPI, sample: Any, vocabulary: Vocabulary, seen: Seen) -> None:
    @app.get("/get_server_info")
    async def show_info() -> Json:
        return {"grammar_backend": "llguidance"}

    @app.post("/abort_request")
    async def abort(body: Json) -> Json:
        seen.told.append(body["rid"])
        return {}

    @app.post("/generate")
    async def generate(body: Json) -> Response:
        parameters = body["sampling_params"]
        request = replace(
            REQUEST,
            prompt=body["input_ids"],
            grammar=parameters.get("ebnf"),
            max_tokens=parameters["max_new_tokens"],
            sampling=_read_sampling(parameters),
            logprobs=body.get("top_logprobs_num"),
            ignore_eos=parameters["ignore_eos"],
        )
        return _stream(write(body, request))

    async def write(body: Json, request: SampleRequest) -> AsyncGenerator[Json, None]:
        tokens: list[int] = []
        own: list[Any] = []
        top: list[Any] = []
        async with aclosing(sample(body, request)) as stream:
            async for sampled in stream:
                info: Json = {"finish_reason": None}
                if isinstance(sampled, SampleEnd):
                    info["finish_reason"] = {"type": str(sampled.reason)}
                    info["cached_tokens"] = sampled.cached
                else:
                    tokens.append(sampled.token)
                    own.append([sampled.logprob, sampled.token, None])
                    top.append([[value, id, None] for id, value in sampled.top.items()])
                if request.logprobs is not None:
                    info |= {"output_token_logprobs": own, "output_top_logprobs": top}
                info["completion_tokens"] = len(tokens)
                yield {"text": "", "output_ids": tokens, "meta_info": info}
