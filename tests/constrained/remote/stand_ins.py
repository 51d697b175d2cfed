"""Stand-ins of llama-server, vLLM and SGLang: real HTTP servers that speak as these do, whose
tokens come from a local engine."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response

from constrained.engine.sampling import Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.prompt.cache_scope import COMMON
from constrained.remote.address import EngineKind
from constrained.remote.sampler import Sampled, SampledToken, SampleEnd, SampleRequest, TokenSampler
from tests.constrained.remote.sglang_stand_in import add_sglang
from tests.constrained.remote.stand_in_parts import (
    REQUEST,
    Json,
    Sample,
    Seen,
    StandInFacts,
    stream,
)
from tests.constrained.remote.vllm_stand_in import add_vllm


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
    facts: StandInFacts | None = None,
) -> FastAPI:
    """The application of a stand-in.

    Args:
        kind: whose place it takes.
        sampler: draws its tokens.
        seen: what it notes.
        vocabulary: that it says it has; None: that of the sampler.
        template: that a llama-server tells.
        sleep: seconds in front of each token.
        facts: that it says of itself; None: the usual ones.
    """
    app = FastAPI()
    facts = facts or StandInFacts()
    vocabulary = vocabulary or sampler.vocabulary

    async def sample(body: Json, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        seen.bodies.append(body)
        is_over = False
        try:
            async with aclosing(sampler.open(request)) as answer:
                async for sampled in answer:
                    is_over = isinstance(sampled, SampleEnd)
                    if sleep:
                        await asyncio.sleep(sleep)
                    yield sampled
        finally:
            if not is_over:
                seen.aborted += 1

    match kind:
        case EngineKind.LLAMA_SERVER:
            _add_llama_server(app, sample, sampler, vocabulary, facts, template=template)
        case EngineKind.VLLM:
            add_vllm(app, sample, sampler, vocabulary, seen, facts)
        case EngineKind.SGLANG:
            add_sglang(app, sample, sampler, vocabulary, seen, facts)
    return app


def _add_llama_server(
    app: FastAPI,
    sample: Sample,
    sampler: TokenSampler,
    vocabulary: Vocabulary,
    facts: StandInFacts,
    *,
    template: str,
) -> None:
    @app.get("/props")
    async def props() -> Json:
        settings = {"n_ctx": sampler.limits.context_length}
        return {
            "default_generation_settings": settings,
            "total_slots": sampler.limits.sequences,
            "model_path": facts.path,
            "chat_template": template,
            "build_info": facts.version,
            "media_marker": f"<__media_{facts.started}__>",
        }

    @app.get("/v1/models")
    async def models() -> Json:
        return {"data": [{"id": "m", "meta": {"n_vocab": len(vocabulary.tokens)}}]}

    @app.post("/tokenize")
    async def tokenize(body: Json) -> Json:
        return {"tokens": vocabulary.encode_special(body["content"])}

    @app.post("/detokenize")
    async def detokenize(body: Json) -> Json:
        return {"content": vocabulary.text(body["tokens"]).decode("utf-8", "replace")}

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
        return stream(write(body, request))

    async def write(body: Json, request: SampleRequest) -> AsyncGenerator[Json, None]:
        count, unsent = 0, b""
        if body.get("return_progress"):
            progress = {"total": len(body["prompt"]), "cache": 0, "processed": 0}
            told = {"content": "", "tokens": [0], "tokens_predicted": 0}
            yield {**told, "prompt_progress": progress}
        async with aclosing(sample(body, request)) as answer:
            async for sampled in answer:
                if isinstance(sampled, SampleEnd):
                    reason = {"stop": "eos", "length": "limit"}[sampled.reason]
                    last = {"content": "", "tokens": [], "stop": True, "stop_type": reason}
                    yield {**last, "tokens_predicted": count, "cache_n": sampled.cached}
                    return
                if not isinstance(sampled, SampledToken):
                    continue
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
