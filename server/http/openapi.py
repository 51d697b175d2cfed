"""The OpenAPI document: the requests of all paths, and the statuses and media types of their
replies.

Requests are described by the pydantic models that validate them. FastAPI cannot find them by
itself, since paths read their bodies off the event loop. The fields of replies are those of the
APIs, whose clients have types for them, so they are not described again.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from grammars.schema.json_values import JsonObject
from server.settings import Settings

Responses = dict[int | str, JsonObject]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
REFERENCES = "#/components/schemas/{model}"
EVENTS = "text/event-stream"
JSON = "application/json"
BODIES: dict[str, type[BaseModel]] = {}  # the bodies of requests, by the names of their types
_SCHEMES: JsonObject = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The API key as OpenAI's clients send it",
    },
    "x-api-key": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "The API key as Anthropic's clients send it",
    },
    "api-key": {
        "type": "apiKey",
        "in": "header",
        "name": "api-key",
        "description": "The API key as Azure's clients send it",
    },
}
_PARAMETERS = {
    "id": "What it is called",
    "limit": "Maximum number",
    "order": "By the time of creation",
    "after": "Continue after this one",
    "stream": "Not supported: a response is streamed only while it is generated",
}
"""Descriptions of path and query parameters, by name."""
_DESCRIPTIONS = {
    400: "The request is not valid",
    401: "The API key is missing or invalid",
    404: "Not found",
    405: "The path does not have this method",
    413: "The request is too large",
    415: "The Content-Type of the body is not JSON",
    422: "The reply does not fit a keyword of its schema that is only checked",
    500: "The server failed",
    501: "The model, or this server, cannot do that",
    502: "The engine on another machine failed, or sent something unexpected",
    503: "The model is loading, too many requests are waiting, or the engine elsewhere is busy",
    504: "The time limit of the request was exceeded",
}


def describe_stream(media_type: str) -> Responses:
    """Returns the reply of a path, for FastAPI's `responses`: it is JSON, or a stream of this media
    type."""
    content: JsonObject = {JSON: {}, media_type: {}}
    return {200: {"description": "The reply, or its stream if asked for", "content": content}}


def describe_text(media_type: str, description: str) -> Responses:
    return {200: {"description": description, "content": {media_type: {}}}}


def describe_errors(*statuses: int) -> Responses:
    return {
        status: {"description": _DESCRIPTIONS[status], "content": {JSON: {}}} for status in statuses
    }


ERRORS = describe_errors(400, 401, 404, 405, 413, 415, 422, 500, 502, 503, 504)
"""The errors of paths that generate text."""
STREAMED = describe_stream(EVENTS) | ERRORS
"""The replies of paths that generate text, and stream it as events."""


class ApiRouter(APIRouter):
    """The paths of an API. A path with `/v1` is there without it, too: base URLs of clients have it
    or not."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().add_api_route(path, endpoint, **options)
        if path.startswith("/v1/"):
            options["include_in_schema"] = False
            super().add_api_route(path.removeprefix("/v1"), endpoint, **options)

    def post_json(
        self,
        path: str,
        kind: type[BaseModel],
        *examples: JsonObject,
        responses: Responses = ERRORS,
    ) -> Callable[[Endpoint], Endpoint]:
        """Adds a path that gets JSON, which `kind` validates; for the decorated function. The
        examples are bodies that the demo model can answer."""
        BODIES[kind.__name__] = kind
        content: JsonObject = {"schema": {"$ref": REFERENCES.format(model=kind.__name__)}}
        if examples:
            named = enumerate(examples, 1)
            content["examples"] = {f"example {number}": {"value": one} for number, one in named}
        body = {"required": True, "content": {JSON: content}}
        return self.post(path, responses=responses, openapi_extra={"requestBody": body})


def complete_document(app: FastAPI, settings: Settings, open_paths: frozenset[str]) -> None:
    """Adds the schemas of requests, and the ways to send an API key, to the OpenAPI document. Any
    thread can then ask for it."""
    make = app.openapi
    lock = threading.Lock()

    def make_complete() -> JsonObject:
        with lock:
            if app.openapi_schema is None:
                document = make()
                kinds: list[tuple[type[BaseModel], JsonSchemaMode]] = []
                for kind in BODIES.values():
                    kinds.append((kind, "validation"))
                _, described = models_json_schema(kinds, ref_template=REFERENCES)
                document["components"] = {
                    "schemas": dict(sorted(described["$defs"].items())),
                    "securitySchemes": _SCHEMES,
                }
                known: list[JsonObject] = [{name: []} for name in _SCHEMES]
                document["security"] = known if settings.api_keys else [{}, *known]
                for path, item in document["paths"].items():
                    for operation in item.values():
                        _complete_operation(operation)
                        if path in open_paths:
                            operation["security"] = []
            return make()

    app.openapi = make_complete


def _complete_operation(operation: JsonObject) -> None:
    """Describes the parameters of a path, and removes what FastAPI adds: schemas of replies, and
    the 422 error of paths with a query, since this server uses another status."""
    replies: JsonObject = operation["responses"]
    if replies.get("422", {}).get("description") == "Validation Error":
        del replies["422"]
    for reply in replies.values():
        reply["content"] = {media_type: {} for media_type in reply["content"]}
    for parameter in operation.get("parameters", ()):
        parameter["description"] = _PARAMETERS[parameter["name"]]
