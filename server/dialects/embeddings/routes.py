"""Embeddings: the paths of OpenAI and of llama-server."""

import base64
from typing import Literal

import numpy as np
from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from server.dialects.embeddings.request import EmbeddingRequest
from server.errors import HttpError
from server.http.disconnects import wait_for_client
from server.http.openapi import ERRORS, describe_body, describe_errors
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
    responses=ERRORS | describe_errors(501),
    openapi_extra=describe_body(EmbeddingRequest, EXAMPLE),
)
@router.post("/embeddings", include_in_schema=False)
@router.post("/embedding", include_in_schema=False)
async def embed(request: Request) -> EmbeddingList | list[NativeEmbedding]:
    """Turns texts into vectors."""
    service = find_embeddings(request)
    body = await read_fields(request, EmbeddingRequest)
    made = await wait_for_client(request, service.embed(body.read()))
    if body.is_native:
        return [
            {"index": index, "embedding": [vector.tolist()]}
            for index, vector in enumerate(made.vectors)
        ]
    write = _write_base64 if body.encoding_format == "base64" else np.ndarray.tolist
    count = sum(made.tokens)
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": write(vector)}
            for index, vector in enumerate(made.vectors)
        ],
        "model": service.name,
        "usage": {"prompt_tokens": count, "total_tokens": count},
    }


def _write_base64(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
