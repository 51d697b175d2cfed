"""Bodies of requests: received on the event loop; read and validated wherever one likes."""

from collections.abc import Mapping, Sequence
from email.message import Message
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from server.errors import HttpError
from server.http.disconnects import GONE
from server.http.json_body import point, read_json
from server.settings import Settings
from server.turns.request_limits import check_lengths

M = TypeVar("M", bound=BaseModel)
REFERENCES = "#/components/schemas/{model}"


def describe_body(kind: type[BaseModel]) -> dict[str, Any]:
    """The body of a path, as FastAPI's `openapi_extra` wants it. FastAPI would find it out by
    itself if it also read the body, which it does on the event loop."""
    schema = {"$ref": REFERENCES.format(model=kind.__name__)}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"requestBody": body}


async def receive_body(request: Request) -> bytes:
    """The body of a request, which has to be JSON by its header.

    A web page of somebody else may send a body without asking the server first, but none that calls
    itself JSON. So the header is insisted on.

    Raises:
        HttpError: it is something else, or the client has gone away.
    """
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    kind = header.get_content_subtype()
    if header.get_content_maintype() != "application" or not (
        kind == "json" or kind.endswith("+json")
    ):
        message = "the body has to be JSON: send the header Content-Type: application/json"
        raise HttpError(415, message, "unsupported_media_type")
    try:
        return b"".join([chunk async for chunk in request.stream()])
    except ClientDisconnect as error:
        raise HttpError(GONE, "the client has gone away", "client_closed_request") from error


def read_body(body: bytes, kind: type[M], settings: Settings) -> M:
    """A request of a dialect.

    Raises:
        HttpError: the body is no JSON, exceeds a limit, or has a field that cannot be; says where.
    """
    value = read_json(body, most_values=settings.max_values)
    if not isinstance(value, dict):
        raise HttpError(400, "the body has to be a JSON object", "invalid_value", where="")
    check_lengths(value, settings)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _describe(error, value) from None


def _describe(error: ValidationError, body: Mapping[str, Any]) -> HttpError:
    """The first of the mistakes that are deepest in the body: of the branches of a union, the one
    that got furthest."""
    details = error.errors(include_url=False, include_input=False)
    deepest: list[Any] = []
    message = ""
    for detail in details:
        steps = _find_steps(detail["loc"], body, is_missing=detail["type"] == "missing")
        if not message or len(steps) > len(deepest):
            deepest, message = steps, detail["msg"]
    field = ".".join(map(str, deepest)) or "the body"
    return HttpError(400, f"{field}: {message}", "invalid_value", where=point(*deepest))


def _find_steps(location: Sequence[Any], body: Any, *, is_missing: bool) -> list[Any]:
    """The steps of a location that are in the body: others name branches of unions."""
    steps: list[Any] = []
    for step in location:
        if _has(body, step):
            body = body[step]
            steps.append(step)
    if is_missing:  # the field that is not there comes last
        steps += [*location][-1:]
    return steps


def _has(value: Any, step: Any) -> bool:
    if isinstance(value, Mapping):
        return step in value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return isinstance(step, int) and step < len(value)
    return False
