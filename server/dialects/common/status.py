"""Paths about the server itself: health, OpenAPI document, metrics."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

import constrained
from server.dialects.common.serving import find_embeddings
from server.http.openapi import describe_errors, describe_text

router = APIRouter()
Json = dict[str, Any]


@router.get("/")
async def show_start() -> Json:
    """Names the server and the paths that describe it."""
    return {
        "name": "constrained",
        "version": constrained.__version__,
        "playground": "/playground",
        "openapi": "/openapi.json",
        "health": "/health",
    }


@router.get("/openapi.json", include_in_schema=False)
async def show_openapi(request: Request) -> JSONResponse:
    """Describes all paths, as an OpenAPI document. It is made once, in a thread: that takes
    0.3 s."""
    return JSONResponse(await asyncio.to_thread(request.app.openapi))


@router.get("/health", responses=describe_errors(503))
@router.get("/v1/health", include_in_schema=False)
async def show_health(request: Request) -> Json:
    """Returns that the server can answer requests."""
    request.app.state.models.check_health()
    embeddings = find_embeddings(request)
    if embeddings is not None:
        embeddings.find_model()
    return {"status": "ok"}


@router.get(
    "/metrics",
    responses=describe_text("text/plain", "The counters") | describe_errors(401),
    response_class=Response,
)
async def show_metrics(request: Request) -> Response:
    """The counters for Prometheus, summed over all loaded models."""
    text = request.app.state.counters.write(request.app.state.models.measure())
    return Response(text, media_type=CONTENT_TYPE_LATEST)
