"""Paths about the server itself: health, OpenAPI document."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from constrained.errors.own_packages import read_version
from grammars.schema.json_values import JsonObject
from server.http.openapi import describe_errors

router = APIRouter()


def describe_server() -> JsonObject:
    return {
        "name": "constrained",
        "version": read_version(),
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
async def show_health(request: Request) -> JsonObject:
    """Returns that the server can answer requests."""
    request.app.state.models.check_health()
    return {"status": "ok"}
