"""The paths of the playground."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from constrained.replay.workbench import inspect_row
from constrained.trace.page import read_page
from server.http.openapi import ERRORS, describe_body, describe_reply
from server.http.reading import read_request
from server.http.replies import answer_json
from server.playground.page import write_playground
from server.turns.service import Service

router = APIRouter()
UNFRAMED = {"X-Frame-Options": "DENY"}
"""No page of somebody else shows these pages in itself, where its own clicks would be made on them:
the playground knows an API key."""
Json = dict[str, Any]
MAX_TEXT = 200_000
"""Characters of a text that the workbench looks at."""
MAX_TEMPLATE = 65_536
"""Characters of a template; the longest that is known has 20,000."""
EXAMPLE: Json = {
    "format": "hermes",
    "tools": [{"name": "ping", "input_schema": {"type": "object", "properties": {}}}],
    "text": '<tool_call>\n{"name": "pong"',
}


class InspectRequest(BaseModel):
    """A row of `constrained check`, without files."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    id: str | int | None = None
    """Comes back in the answer."""
    template: str | None = Field(None, max_length=MAX_TEMPLATE)
    """The chat template itself."""
    format: str | None = None
    """The name of a known format, in place of a template."""
    tool_format: str | None = None
    """The name of a known format that the prompt teaches."""
    tools: list[Any] | None = None
    """In the form of OpenAI, Anthropic or MCP."""
    messages: list[Json] | None = None
    """The conversation in front of the text; a greeting if not given."""
    tool_choice: str | Json | None = None
    """`auto`, `none`, `required`, or the tool that is to be called."""
    parallel_tool_calls: bool | None = None
    """false: one call at most."""
    response_format: Json | None = None
    """What an answer has to be."""
    chat_template_kwargs: Json | None = None
    """Variables of the template."""
    reasoning_format: str | None = None
    """As in llama-server: `none` leaves reasoning in the content."""
    markers: Literal["text", "token"] | None = None
    """Whether the markers of the format are single tokens."""
    bos_token: str | None = None
    """What the template has as `bos_token`."""
    eos_token: str | None = None
    """What the template has as `eos_token`."""
    text: str | None = Field(None, max_length=MAX_TEXT)
    """What the model wrote after the prompt."""


class TextRefusal(TypedDict):
    """The place where the grammar refuses a text, or where the text ends too early."""

    offset: int
    """Bytes that are accepted."""
    before: str
    found: str
    expected: list[str]
    """Characters, ranges of them, special tokens."""
    forced: str
    """The text that has to come next, if there is no choice."""
    may_end: bool


class Inspection(TypedDict):
    """What a template, tools and a text have to do with each other."""

    prompt: str | None
    start_state: str
    format: str
    origin: str
    """How the format is known."""
    notice: str
    markers: list[str]
    grammar: str
    tools: list[Json]
    """What becomes of each keyword of each schema."""
    check: Json | None
    """As `constrained check` answers; null without a text."""
    refusal: TextRefusal | None


@router.get("/playground", include_in_schema=False)
async def show_playground() -> HTMLResponse:
    """The page."""
    return HTMLResponse(write_playground(), headers=UNFRAMED)


@router.get("/playground/trace", include_in_schema=False)
async def show_trace_page() -> HTMLResponse:
    """The page of traces, for the playground to put a trace into."""
    return HTMLResponse(read_page(), headers=UNFRAMED)


@router.post(
    "/playground/inspect",
    responses=describe_reply(Inspection) | ERRORS,
    openapi_extra=describe_body(InspectRequest, EXAMPLE),
)
async def inspect(request: Request) -> Response:
    """What a template, tools and a text of a model have to do with each other: prompt, format,
    grammar, report of the schemas, and the byte at which the grammar refuses the text."""
    _, _, found = await read_request(request, InspectRequest, _inspect, quick=False)
    return found


def _inspect(body: InspectRequest, service: Service) -> Response:
    return answer_json(inspect_row(body.model_dump(exclude_none=True)))
