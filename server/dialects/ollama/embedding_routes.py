"""Ollama's API: embeddings."""

import json
import time

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import StrictInt

from server.dialects.common.reading import read_fields
from server.dialects.common.serving import require_embeddings
from server.dialects.embeddings.routes import (
    RowForm,
    send_rows,
    write_vector,
)
from server.http.disconnects import wait_for_client
from server.http.openapi import ERRORS, describe_body, describe_errors
from server.models.embedding_service import EmbeddingInput
from server.turns.fields.common_fields import Fields
from server.turns.fields.request_lists import Texts

router = APIRouter(prefix="/api")


class EmbedRequest(Fields):
    """A request to /api/embed."""

    model: str | None = None
    """The name of the model; any name selects the one embedding model."""
    input: str | Texts | None = None
    """One or more texts."""
    truncate: bool | None = None
    """true, the default: texts that are too long are truncated; false: they are refused."""
    dimensions: StrictInt | None = None
    """Truncates the vectors to this number of values."""


@router.post(
    "/embed",
    responses=ERRORS | describe_errors(501),
    openapi_extra=describe_body(EmbedRequest, {"model": "embedding", "input": "Hello!"}),
)
async def embed(request: Request) -> Response:
    """Converts texts to vectors."""
    began = time.monotonic_ns()
    service = require_embeddings(request)
    body = await read_fields(request, EmbedRequest)
    given = body.input or []  # an empty input only loads the model, which is loaded already
    given = EmbeddingInput(
        [given] if isinstance(given, str) else given,
        "/input",
        is_list=not isinstance(given, str),
        dimensions=body.dimensions,
        truncate=body.truncate is not False,
    )
    read = await wait_for_client(request, service.read(given))
    rest = {
        "model": service.name,
        "total_duration": time.monotonic_ns() - began,
        "load_duration": 0,
        "prompt_eval_count": read.count,
    }
    form = RowForm(f'{{{json.dumps(rest)[1:-1]},"embeddings":[', "{vector}", "]}")
    return await send_rows(request, read.write(write_vector), form)
