"""Embeddings: the paths of OpenAI and of llama-server."""

import base64
import json
from functools import partial
from typing import Literal

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from typing_extensions import TypedDict

from constrained.embedding.embedding_model import Embeddings
from server.dialects.embeddings.request import EmbeddingRequest
from server.errors import HttpError
from server.http.disconnects import wait_for_client
from server.http.openapi import ERRORS, describe_body, describe_errors, describe_reply
from server.http.reading import read_fields
from server.models.embedding_service import EmbeddingService

router = APIRouter()
NONE_SERVED = (
    "this server has no model for embeddings: start it with --embedding-model FILE, beside the "
    "model that writes"
)
EXAMPLE = {"model": "embedding", "input": ["The weather in Paris", "An e-mail to Ada"]}


def find_embeddings(request: Request) -> EmbeddingService:
    """The embedding model of the server.

    Raises:
        HttpError: it has none.
    """
    service: EmbeddingService | None = request.app.state.embeddings
    if service is None:
        raise HttpError(501, NONE_SERVED, "not_implemented")
    return service


class Embedding(TypedDict):
    """The vector of a text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str
    """Numbers, or base64 where that was asked for."""


class EmbeddingUsage(TypedDict):
    """The tokens of all texts."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(TypedDict):
    """The reply to /v1/embeddings."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


class NativeEmbedding(TypedDict):
    """The vector of a text, as llama-server's own path has it."""

    index: int
    embedding: list[list[float]]
    """One vector: those of the tokens are pooled."""


@router.post(
    "/v1/embeddings",
    responses=describe_reply(EmbeddingList | list[NativeEmbedding]) | ERRORS | describe_errors(501),
    openapi_extra=describe_body(EmbeddingRequest, EXAMPLE),
)
@router.post("/embeddings", include_in_schema=False)
@router.post("/embedding", include_in_schema=False)
async def embed(request: Request) -> Response:
    """Turns texts into vectors."""
    service = find_embeddings(request)
    body = await read_fields(request, EmbeddingRequest)
    write = write_native
    if not body.is_native:
        write = partial(write_list, service.name, is_base64=body.encoding_format == "base64")
    data = await wait_for_client(request, service.embed(body.read(), write))
    return Response(data, media_type="application/json")


def write_list(name: str, made: Embeddings, *, is_base64: bool) -> bytes:
    """The reply in OpenAI's form.

    Args:
        name: of the model.
        made: the vectors.
        is_base64: as the base64 of their bytes, and not as numbers.
    """
    rows: list[str] = []
    for index, vector in enumerate(made.vectors):
        shown = f'"{_write_base64(vector)}"' if is_base64 else write_vector(vector)
        rows.append(f'{{"object":"embedding","index":{index},"embedding":{shown}}}')
    count = sum(made.tokens)
    usage = f'{{"prompt_tokens":{count},"total_tokens":{count}}}'
    rest = f'"model":{json.dumps(name)},"usage":{usage}'
    return f'{{"object":"list","data":[{",".join(rows)}],{rest}}}'.encode()


def write_native(made: Embeddings) -> bytes:
    """The reply in llama-server's own form."""
    rows = [
        f'{{"index":{index},"embedding":[{write_vector(vector)}]}}'
        for index, vector in enumerate(made.vectors)
    ]
    return f"[{','.join(rows)}]".encode()


def write_vector(vector: np.ndarray) -> str:
    """A vector as JSON. One by one: to write thousands at once would let no other thread run."""
    return json.dumps(vector.tolist())


def _write_base64(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
