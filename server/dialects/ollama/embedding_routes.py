"""Ollama's API: embeddings."""

import json
import time

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from constrained.embedding.embedding_model import Embeddings
from server.dialects.embeddings.routes import find_embeddings, write_vector
from server.dialects.ollama.reply_types import OllamaErrorReply
from server.http.disconnects import wait_for_client
from server.http.openapi import (
    describe_body,
    describe_errors,
    describe_generation_errors,
    describe_reply,
)
from server.http.reading import read_fields
from server.models.embedding_service import EmbeddingWish
from server.turns.request_lists import Texts

router = APIRouter(prefix="/api")
ERRORS = describe_generation_errors(OllamaErrorReply) | describe_errors(501, kind=OllamaErrorReply)


class EmbedRequest(BaseModel):
    """A request to /api/embed."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    model: str | None = None
    """The embedding model answers whatever name is given: there is one."""
    input: str | Texts
    """A text, or several."""
    truncate: bool | None = None
    """Cut texts that are too long, which is the default of this API; false: refuse them."""
    dimensions: int | None = None
    """Cuts the vectors to so many numbers."""


class EmbeddingsRequest(BaseModel):
    """A request to /api/embeddings, the older path."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    model: str | None = None
    """The embedding model answers whatever name is given: there is one."""
    prompt: str = ""
    """A text."""


class EmbedReply(TypedDict):
    """The reply to /api/embed."""

    model: str
    embeddings: list[list[float]]
    """Each is 1 long."""
    total_duration: int
    """Nanoseconds."""
    load_duration: int
    prompt_eval_count: int


class EmbeddingsReply(TypedDict):
    """The reply to /api/embeddings."""

    embedding: list[float]
    """As the model gives it, of any length."""


@router.post(
    "/embed",
    responses=describe_reply(EmbedReply) | ERRORS,
    openapi_extra=describe_body(EmbedRequest, {"model": "embedding", "input": "Hello!"}),
)
async def embed(request: Request) -> Response:
    """Turns texts into vectors."""
    began = time.monotonic_ns()
    service = find_embeddings(request)
    body = await read_fields(request, EmbedRequest)
    texts = [body.input] if isinstance(body.input, str) else body.input
    wish = EmbeddingWish(
        texts, "/input", dimensions=body.dimensions, truncate=body.truncate is not False
    )

    def write(made: Embeddings) -> bytes:
        rest = {
            "model": service.name,
            "total_duration": time.monotonic_ns() - began,
            "load_duration": 0,
            "prompt_eval_count": sum(made.tokens),
        }
        vectors = ",".join(map(write_vector, made.vectors))
        return f'{{"embeddings":[{vectors}],{json.dumps(rest)[1:]}'.encode()

    data = await wait_for_client(request, service.embed(wish, write))
    return Response(data, media_type="application/json")


@router.post(
    "/embeddings",
    responses=describe_reply(EmbeddingsReply) | ERRORS,
    openapi_extra=describe_body(EmbeddingsRequest, {"model": "embedding", "prompt": "Hello!"}),
)
async def embed_prompt(request: Request) -> Response:
    """Turns a text into a vector."""
    service = find_embeddings(request)
    body = await read_fields(request, EmbeddingsRequest)
    if not body.prompt:
        return JSONResponse({"embedding": []})
    wish = EmbeddingWish([body.prompt], "/prompt", normalize=False, truncate=True)

    def write(made: Embeddings) -> bytes:
        return f'{{"embedding":{write_vector(made.vectors[0])}}}'.encode()

    data = await wait_for_client(request, service.embed(wish, write))
    return Response(data, media_type="application/json")
