"""The paths of the playground."""

from typing import Any, Literal

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from constrained.inspect.replay.workbench import inspect_row
from constrained.model.trace.page import read_page
from grammars.schema.json_values import JsonObject
from server.dialects.common.reading import read_request
from server.dialects.common.replies import answer_json
from server.http.openapi import ApiRouter
from server.playground.page import write_playground
from server.turns.service import Service

router = ApiRouter()
UNFRAMED = {"X-Frame-Options": "DENY"}
"""Other sites may not show these pages in a frame, where they could steal clicks (clickjacking):
the playground knows an API key."""
MAX_TEXT = 200_000
"""The maximum characters of a text in the workbench: each takes 150 bytes."""
EXAMPLE: JsonObject = {
    "format": "hermes",
    "tools": [{"name": "ping", "input_schema": {"type": "object", "properties": {}}}],
    "text": '<tool_call>\n{"name": "pong"',
}


class InspectRequest(BaseModel):
    """A row of `constrained check`, without files."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    id: str | int | None = None
    """Is repeated in the reply."""
    template: str | None = None
    """The chat template itself."""
    format: str | None = None
    """The name of a known format, instead of a template."""
    tool_format: str | None = None
    """The name of a known format that the prompt teaches."""
    tools: list[Any] | None = None
    """In the form of OpenAI, Anthropic or MCP."""
    messages: list[JsonObject] | None = None
    """The conversation before the text; default: a greeting."""
    tool_choice: str | JsonObject | None = None
    """`auto`, `none`, `required`, or the tool that must be called."""
    parallel_tool_calls: bool | None = None
    """false: at most one call."""
    response_format: JsonObject | None = None
    """The format of an answer."""
    chat_template_kwargs: JsonObject | None = None
    """Variables of the template."""
    reasoning_format: str | None = None
    """As in llama-server: `none` leaves reasoning in the content."""
    markers: Literal["text", "token"] | None = None
    """Whether the markers of the format are single tokens."""
    bos_token: str | None = None
    """The template's `bos_token`."""
    eos_token: str | None = None
    """The template's `eos_token`."""
    text: str | None = Field(None, max_length=MAX_TEXT)
    """The model's text after the prompt."""


@router.get("/playground", include_in_schema=False)
async def show_playground() -> HTMLResponse:
    """The page."""
    return HTMLResponse(write_playground(), headers=UNFRAMED)


@router.get("/playground/trace", include_in_schema=False)
async def show_trace_page() -> HTMLResponse:
    """The page of traces, into which the playground puts a trace."""
    return HTMLResponse(read_page(), headers=UNFRAMED)


@router.post_json("/playground/inspect", InspectRequest, EXAMPLE)
async def inspect(request: Request) -> Response:
    """Shows how a template, tools and a text of a model fit together: prompt, format, grammar,
    report on the schemas, and the byte at which the grammar refuses the text."""
    _, _, found = await read_request(request, InspectRequest, _inspect, quick=False)
    return found


def _inspect(body: InspectRequest, service: Service) -> Response:
    return answer_json(inspect_row(body.model_dump(exclude_none=True)))
