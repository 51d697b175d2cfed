"""Embeddings: the paths of OpenAI."""

import base64
import json
from collections.abc import AsyncIterator

import numpy as np
from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from server.dialects.common.reading import read_fields
from server.dialects.common.serving import require_embeddings
from server.dialects.embeddings.request import EmbeddingRequest
from server.http.disconnects import wait_for_client
from server.http.openapi import ERRORS, ApiRouter, describe_errors

router = ApiRouter()
EMBEDDED = ERRORS | describe_errors(501)
EXAMPLE = {"model": "embedding", "input": ["The weather in Paris", "An e-mail to Ada"]}


@router.post_json("/v1/embeddings", EmbeddingRequest, EXAMPLE, responses=EMBEDDED)
async def embed(request: Request) -> Response:
    """Converts texts to vectors."""
    service = require_embeddings(request)
    body = await read_fields(request, EmbeddingRequest)
    read = await wait_for_client(request, service.read(body.read()))
    write = _write_base64 if body.encoding_format == "base64" else write_vector
    usage = {"prompt_tokens": read.count, "total_tokens": read.count}
    end = f'],"model":{json.dumps(service.name)},"usage":{json.dumps(usage)}}}'
    rows = _number_rows(read.write(write))
    return await send_rows(request, rows, '{"object":"list","data":[', end)


async def _number_rows(vectors: AsyncIterator[list[str]]) -> AsyncIterator[list[str]]:
    index = 0
    async for some in vectors:
        rows: list[str] = []
        for vector in some:
            rows.append(f'{{"object":"embedding","index":{index},"embedding":{vector}}}')
            index += 1
        yield rows


async def send_rows(
    request: Request, rows: AsyncIterator[list[str]], begin: str, end: str
) -> Response:
    """Sends the reply while the vectors are computed and the client reads it: thousands of vectors
    take a hundred MB.

    Args:
        request: of the client.
        rows: the JSON of the vectors, several at a time.
        begin: the JSON before them.
        end: the JSON after them.

    Raises:
        HttpError, Error: the first vectors cannot be computed, or the client has disconnected.
    """

    async def take() -> list[str]:
        return await anext(rows, [])

    first = await wait_for_client(request, take())

    async def write() -> AsyncIterator[str]:
        yield begin + ",".join(first)
        async for some in rows:
            yield "," + ",".join(some)
        yield end

    return StreamingResponse(write(), media_type="application/json")


def write_vector(vector: np.ndarray) -> str:
    """Writes a vector as a list of numbers."""
    return json.dumps(vector.tolist())


def _write_base64(vector: np.ndarray) -> str:
    return f'"{base64.b64encode(vector.astype("<f4").tobytes()).decode()}"'
