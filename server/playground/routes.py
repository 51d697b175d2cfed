"""The paths of the playground, which is the start page of the server for browsers."""

import json
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict

from constrained.errors import GrammarError
from constrained.model.trace.turn_trace import read_page
from constrained.prompt.tools.shapes import read_tools
from grammars.limits.steps import StepsError, limit_steps
from grammars.schema.json_values import Json, JsonObject
from grammars.schema.nodes import Violation
from grammars.schema.numbers import normalise_numbers
from grammars.turn import Tool
from server.dialects.common.reading import read_fields, run_unassigned
from server.dialects.common.replies import answer_json
from server.dialects.common.server_routes import describe_server
from server.http.openapi import JSON, ApiRouter

router = ApiRouter()
UNFRAMED = {"X-Frame-Options": "DENY"}
"""Other sites may not show these pages in a frame, where they could steal clicks (clickjacking):
the playground knows an API key."""
HTML = "text/html"
START: JsonObject = {
    "description": "For browsers the page, else JSON",
    "content": {JSON: {}, HTML: {}},
}
MAX_STEPS = 400_000  # of the schemas of all tools
_PING: JsonObject = {"name": "ping", "input_schema": {"type": "object", "properties": {}}}
EXAMPLE: JsonObject = {"tools": [_PING], "calls": [{"name": "ping", "arguments": "{}"}]}
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
    """Shows the chat to browsers. Tells other clients, in JSON, the name of the server and the
    paths that describe it."""
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


@router.post_json("/playground/verdicts", VerdictRequest, EXAMPLE)
async def judge(request: Request) -> Response:
    """Says of each call whether it fits the schema of its tool, and if it does not, where and
    why."""
    body = await read_fields(request, VerdictRequest)
    verdicts = await run_unassigned(request, partial(_judge_calls, body), quick=False)
    return answer_json({"verdicts": verdicts})


def _judge_calls(body: VerdictRequest) -> list[Json]:
    """Returns `{valid, errors}` for each call; errors are `{pointer, message}`, with a JSON pointer
    into the call (`/name`, `/arguments/...`)."""
    try:
        with limit_steps(MAX_STEPS):
            offered = {tool.name: tool for tool in read_tools(body.tools)}
    except StepsError as error:
        message = "its schemas take too many steps to examine"
        raise GrammarError(message, where="/tools", hint="Simplify them") from error
    verdicts: list[Json] = []
    for call in body.calls:
        errors: list[Json] = [vars(error) for error in _judge(call, offered.get(call.name))]
        verdicts.append({"valid": not errors, "errors": errors})
    return verdicts


def _judge(call: CallFields, tool: Tool | None) -> Sequence[Violation]:
    if tool is None:
        return [Violation("/name", f"no tool is called {call.name!r}")]
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return [Violation("/arguments", "the arguments are no JSON")]
    found = tool.schema.find_errors(normalise_numbers(arguments, tool.schema))
    return [Violation(f"/arguments{error.pointer}", error.message) for error in found]
