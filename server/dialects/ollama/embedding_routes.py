"""Ollama's API: embeddings."""

import json
import time

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, StrictInt
from typing_extensions import TypedDict

from server.dialects.embeddings.routes import (
    RowForm,
    send_rows,
    write_vector,
)
from server.dialects.ollama.reply_types import OllamaErrorReply
from server.http.disconnects import wait_for_client
from server.http.openapi import (
    describe_body,
    describe_errors,
    describe_generation_errors,
    describe_reply,
)
from server.http.reading import read_fields
from server.http.serving import require_embeddings
from server.models.embedding_service import EmbeddingWish
from server.turns.fields.request_lists import Texts

router = APIRouter(prefix="/api")
ERRORS = describe_generation_errors(OllamaErrorReply) | describe_errors(501, kind=OllamaErrorReply)


class EmbedRequest(BaseModel):
    """A request to /api/embed."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    model: str | None = None
    """The embedding model answers whatever name is given: there is one."""
    input: str | Texts | None = None
    """A text, or several."""
    truncate: bool | None = None
    """Cut texts that are too long, which is the default of this API; false: refuse them."""
    dimensions: StrictInt | None = None
    """Cuts the vectors to so many numbers."""


class EmbeddingsRequest(BaseModel):
    """A request to /api/embeddings, the older path."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    model: str | None = None
    """The embedding model answers whatever name is given: there is one."""
    prompt: str | None = None
    """A text."""


class EmbedReply(TypedDict):
    """The reply to /api/embed."""

    model: str
    embeddings: list[list[float]]
    """Each is 1 long."""
    total_duration: int
    """Nanoseconds until the texts were read: the vectors are sent as they are computed."""
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
    service = require_embeddings(request)
    body = await read_fields(request, EmbedRequest)
    given = body.input or []  # what is empty only loads a model, which is loaded
    wish = EmbeddingWish(
        [given] if isinstance(given, str) else given,
        "/input",
        is_list=not isinstance(given, str),
        dimensions=body.dimensions,
        truncate=body.truncate is not False,
    )
    read = await wait_for_client(request, service.read(wish))
    rest = {
        "model": service.name,
        "total_duration": time.monotonic_ns() - began,
        "load_duration": 0,
        "prompt_eval_count": read.count,
    }
    form = RowForm(f'{{{json.dumps(rest)[1:-1]},"embeddings":[', "{vector}", "]}")
    return await send_rows(request, read.write(write_vector), form)


@router.post(
    "/embeddings",
    responses=describe_reply(EmbeddingsReply) | ERRORS,
    openapi_extra=describe_body(EmbeddingsRequest, {"model": "embedding", "prompt": "Hello!"}),
)
async def embed_prompt(request: Request) -> Response:
    """Turns a text into a vector."""
    service = require_embeddings(request)
    body = await read_fields(request, EmbeddingsRequest)
    if not body.prompt:
        return JSONResponse({"embedding": []})
    wish = EmbeddingWish([body.prompt], "/prompt", is_list=False, normalize=False, truncate=True)
    read = await wait_for_client(request, service.read(wish))
    form = RowForm('{"embedding":', "{vector}", "}")
    return await send_rows(request, read.write(write_vector), form)
