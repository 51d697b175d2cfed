"""Paths about the server itself: its health, its docs, its metrics."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

import constrained
from server.http.docs_page import write_page
from server.http.serving import describe_errors

router = APIRouter()
Json = dict[str, Any]


@router.get("/")
async def show_start() -> Json:
    """What this server is, and where it describes itself."""
    paths = {
        "docs": "/docs",
        "playground": "/playground",
        "openapi": "/openapi.json",
        "health": "/health",
    }
    return {"name": "constrained", "version": constrained.__version__, **paths}


@router.get("/docs", include_in_schema=False)
async def show_docs(request: Request) -> HTMLResponse:
    """The paths, their fields and their errors, to be read."""
    return HTMLResponse(write_page(request.app.openapi()))


@router.get("/health", responses=describe_errors(503))
@router.get("/v1/health", responses=describe_errors(503), include_in_schema=False)
async def tell_health(request: Request) -> Json:
    """Says that requests can be answered."""
    request.app.state.models.check_health()
    return {"status": "ok"}


@router.get("/metrics", responses=describe_errors(401), response_class=Response)
async def tell_metrics(request: Request) -> Response:
    """The counters, for Prometheus; those of all loaded models together."""
    text = request.app.state.counters.write(request.app.state.models.measure())
    return Response(text, media_type=CONTENT_TYPE_LATEST)
