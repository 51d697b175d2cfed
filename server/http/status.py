"""Paths about the server itself: its health, its docs, its metrics."""

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from typing_extensions import TypedDict

import constrained
from server.http.docs_page import write_page
from server.http.openapi import describe_errors, describe_text
from server.http.serving import find_embeddings

router = APIRouter()


class ServerStart(TypedDict):
    """A server, and where it describes itself."""

    name: str
    version: str
    playground: str
    docs: str
    openapi: str
    health: str


class Health(TypedDict):
    """Requests can be answered."""

    status: Literal["ok"]


@router.get("/")
async def show_start() -> ServerStart:
    """What this server is, and where it describes itself."""
    return {
        "name": "constrained",
        "version": constrained.__version__,
        "playground": "/playground",
        "docs": "/docs",
        "openapi": "/openapi.json",
        "health": "/health",
    }


@router.get("/docs", include_in_schema=False)
async def show_docs(request: Request) -> HTMLResponse:
    """The paths, their fields and their errors, to be read."""
    return HTMLResponse(write_page(request.app.openapi()))


@router.get("/health", responses=describe_errors(503))
@router.get("/v1/health", responses=describe_errors(503), include_in_schema=False)
async def tell_health(request: Request) -> Health:
    """Says that requests can be answered."""
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
async def tell_metrics(request: Request) -> Response:
    """The counters, for Prometheus; those of all loaded models together."""
    text = request.app.state.counters.write(request.app.state.models.measure())
    return Response(text, media_type=CONTENT_TYPE_LATEST)
