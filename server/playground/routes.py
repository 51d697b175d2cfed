"""The paths of the playground, which is the start page of the server for browsers."""

from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from constrained.inspect.replay.workbench import inspect_row, judge_calls
from constrained.model.trace.page import read_page
from grammars.schema.json_values import JsonObject
from server.dialects.common.reading import read_fields, read_request, run_unassigned
from server.dialects.common.replies import answer_json
from server.dialects.common.server_routes import describe_server
from server.http.openapi import JSON, ApiRouter
from server.turns.service import Service

router = ApiRouter()
UNFRAMED = {"X-Frame-Options": "DENY"}
"""Other sites may not show these pages in a frame, where they could steal clicks (clickjacking):
the playground knows an API key."""
HTML = "text/html"
START: JsonObject = {
    "description": "For browsers the page, else JSON",
    "content": {JSON: {}, HTML: {}},
}
MAX_TEXT = 200_000
"""The maximum characters of a text in the workbench: each takes 150 bytes."""
EXAMPLE: JsonObject = {
    "format": "hermes",
    "tools": [{"name": "ping", "input_schema": {"type": "object", "properties": {}}}],
    "text": '<tool_call>\n{"name": "pong"',
}
CALLED: JsonObject = {"tools": EXAMPLE["tools"], "calls": [{"name": "ping", "arguments": "{}"}]}
SCRIPTS = (
    "elements",
    "requests",
    "storage",
    "json_fields",
    "tabs",
    "models",
    "settings",
    "tool_document",
    "tool_form",
    "typed_values",
    "call_card",
    "turn_view",
    "trace_dialog",
    "conversations",
    "conversation_list",
    "chat",
    "workbench_examples",
    "workbench",
    "start",
)
"""The scripts, in the order in which they run: each may use those before it at once, and those
behind it later."""


@cache
def write_playground(*, needs_key: bool) -> str:
    """Returns the page as one HTML text, which asks for an API key if the server wants one."""
    folder = files("server.playground")
    scripts = folder.joinpath("scripts")
    texts = [scripts.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    page = page.replace("/*STYLE*/", folder.joinpath("style.css").read_text(encoding="utf-8"))
    page = page.replace("/*NEEDS_KEY*/", str(needs_key).lower())
    return page.replace("/*SCRIPT*/", "\n".join(texts))


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


class CallFields(BaseModel):
    """A call of a tool, as a model wrote it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: str
    """Of the tool."""
    arguments: str
    """As JSON text."""


class VerdictRequest(BaseModel):
    """Calls, and the tools that were offered."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    tools: list[Any]
    """In the form of OpenAI, Anthropic or MCP."""
    calls: list[CallFields]
    """What the model wrote."""


@router.get("/", responses={200: START})
async def show_start(request: Request) -> Response:
    """Shows the chat and the workbench to browsers. Tells other clients, in JSON, the name of the
    server and the paths that describe it."""
    accepted = ",".join(request.headers.getlist("accept")).lower()
    vary = {"Vary": "Accept"}
    if HTML not in accepted or JSON in accepted:  # curl and SDKs accept anything, or name JSON
        return JSONResponse(describe_server(), headers=vary)
    page = await show_playground(request)
    page.headers.update(vary)
    return page


@router.get("/playground", include_in_schema=False)
async def show_playground(request: Request) -> HTMLResponse:
    """The same page, for every client."""
    needs_key = bool(request.app.state.settings.api_keys)
    return HTMLResponse(write_playground(needs_key=needs_key), headers=UNFRAMED)


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


@router.post_json("/playground/verdicts", VerdictRequest, CALLED)
async def judge(request: Request) -> Response:
    """Says of each call whether it fits the schema of its tool, and if it does not, where and
    why."""
    body = await read_fields(request, VerdictRequest)
    calls = [(call.name, call.arguments) for call in body.calls]
    judging = partial(judge_calls, body.tools, calls)
    return answer_json({"verdicts": await run_unassigned(request, judging, quick=False)})
