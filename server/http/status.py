"""Paths about the server itself: its health, its model, its metrics."""

import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

import constrained
from server.errors import HttpError
from server.http.docs_page import write_page
from server.http.serving import describe_errors, find_service
from server.turns.service import Service

router = APIRouter()
Json = dict[str, Any]
STARTED = int(time.time())
STARTED_AT = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(STARTED))
NOT_LOADED = describe_errors(401, 503)
NOT_FOUND = describe_errors(401, 503, 404)


@router.get("/")
async def show_start() -> Json:
    """What this server is, and where it describes itself."""
    paths = {"docs": "/docs", "openapi": "/openapi.json", "health": "/health"}
    return {"name": "constrained", "version": constrained.__version__, **paths}


@router.get("/docs", include_in_schema=False)
async def show_docs(request: Request) -> HTMLResponse:
    """The paths, their fields and their errors, to be read."""
    return HTMLResponse(write_page(request.app.openapi()))


@router.get("/health", responses=describe_errors(503))
@router.get("/v1/health", responses=describe_errors(503), include_in_schema=False)
async def tell_health(request: Request) -> Json:
    """Says that requests can be answered."""
    find_service(request)
    return {"status": "ok"}


@router.get("/v1/models", responses=NOT_LOADED)
@router.get("/models", responses=NOT_LOADED, include_in_schema=False)
async def list_models(request: Request) -> Json:
    """The one model."""
    described = describe_model(find_service(request))
    return {
        "object": "list",
        "data": [described],
        "has_more": False,  # from here on Anthropic's form of a list
        "first_id": described["id"],
        "last_id": described["id"],
    }


@router.get("/v1/models/{id:path}", responses=NOT_FOUND)
@router.get("/models/{id:path}", responses=NOT_FOUND, include_in_schema=False)
async def show_model(id: str, request: Request) -> Json:
    """The model, by its name."""
    service = find_service(request)
    if id != service.name:
        message = f"there is no model {id!r}; this server has {service.name!r}"
        raise HttpError(404, message, "model_not_found")
    return describe_model(service)


def describe_model(service: Service) -> Json:
    """The model as OpenAI's and Anthropic's clients read it."""
    return {
        "id": service.name,
        "object": "model",
        "type": "model",
        "display_name": service.name,
        "created": STARTED,
        "created_at": STARTED_AT,
        "owned_by": "constrained",
        "meta": {
            "n_vocab": len(service.model.engine.vocabulary.tokens),
            "n_ctx": service.model.engine.context_length,
        },
    }


@router.get("/metrics", responses=NOT_LOADED, response_class=Response)
async def tell_metrics(request: Request) -> Response:
    """The counters, for Prometheus."""
    service = find_service(request)
    text = request.app.state.counters.write(service.model.metrics())
    return Response(text, media_type=CONTENT_TYPE_LATEST)
