"""The paths of the playground."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from constrained.replay.workbench import inspect_row
from constrained.trace.page import read_page
from server.http.body import describe_body
from server.http.reading import read_request
from server.http.serving import ERRORS, find_service
from server.playground.page import write_playground
from server.turns.service import Service

router = APIRouter()
Json = dict[str, Any]
MOST_TEXT = 200_000
"""Characters of a template or a text that the workbench looks at."""


class InspectRequest(BaseModel):
    """A row of `constrained check`, without files."""

    model_config = ConfigDict(extra="forbid")

    id: str | int | None = None
    template: str | None = Field(None, max_length=MOST_TEXT)
    format: str | None = None
    tool_format: str | None = None
    tools: list[Any] | None = None
    messages: list[Json] | None = None
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    response_format: Json | None = None
    chat_template_kwargs: Json | None = None
    reasoning_format: str | None = None
    markers: str | None = None
    bos_token: str | None = None
    eos_token: str | None = None
    text: str | None = Field(None, max_length=MOST_TEXT)


@router.get("/playground", include_in_schema=False)
async def show_playground() -> HTMLResponse:
    """The page."""
    return HTMLResponse(write_playground())


@router.get("/playground/trace", include_in_schema=False)
async def show_trace_page() -> HTMLResponse:
    """The page of traces, for the playground to put a trace into."""
    return HTMLResponse(read_page())


@router.post("/playground/inspect", responses=ERRORS, openapi_extra=describe_body(InspectRequest))
async def inspect(request: Request) -> Response:
    """What a template, tools and a text of a model have to do with each other: prompt, format,
    grammar, report of the schemas, and the byte at which the grammar refuses the text."""
    service = await find_service(request)
    _, found = await read_request(request, service, InspectRequest, _inspect)
    return JSONResponse(found)


def _inspect(body: InspectRequest, service: Service) -> Json:
    return inspect_row(body.model_dump(exclude_none=True))
