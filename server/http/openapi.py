"""The OpenAPI document: the requests of all paths, and the statuses and media types of their
replies.

Requests are described by the pydantic models that validate them. FastAPI cannot find them by
itself, since paths read their bodies off the event loop. The fields of replies are those of the
APIs, whose clients have types for them, so they are not described again.
"""

import threading
from collections.abc import Mapping

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from grammars.schema.json_values import JsonObject
from server.settings import Settings

Responses = dict[int | str, JsonObject]
REFERENCES = "#/components/schemas/{model}"
EVENTS = "text/event-stream"
JSON = "application/json"
_bodies: dict[str, type[BaseModel]] = {}
"""The bodies of requests, by the names of their types."""
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
    "purpose": "Only those of this purpose",
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


def describe_body(kind: type[BaseModel], *examples: JsonObject) -> JsonObject:
    """Returns the body of a path, for FastAPI's `openapi_extra`.

    Args:
        kind: the pydantic model that validates it.
        examples: requests that the demo model can answer.
    """
    _bodies[kind.__name__] = kind
    content: JsonObject = {"schema": {"$ref": REFERENCES.format(model=kind.__name__)}}
    if examples:
        named = {f"example {number}": {"value": value} for number, value in enumerate(examples, 1)}
        content["examples"] = named
    return {"requestBody": {"required": True, "content": {JSON: content}}}


def describe_stream(media_type: str) -> Responses:
    """Returns the reply of a path, for FastAPI's `responses`: it is JSON, or a stream of this media
    type."""
    content: JsonObject = {JSON: {}, media_type: {}}
    return {200: {"description": "The reply, or its stream if asked for", "content": content}}


def describe_text(media_type: str, description: str) -> Responses:
    """Returns the reply of a path that is not JSON."""
    return {200: {"description": description, "content": {media_type: {}}}}


def describe_errors(*statuses: int) -> Responses:
    """Returns the errors of a path, for FastAPI's `responses`."""
    return {
        status: {"description": _DESCRIPTIONS[status], "content": {JSON: {}}} for status in statuses
    }


ERRORS = describe_errors(400, 401, 404, 405, 413, 415, 422, 500, 502, 503, 504)
"""The errors of paths that generate text."""
STREAMED = describe_stream(EVENTS) | ERRORS
"""The replies of paths that generate text, and stream it as events."""


def list_requests() -> list[type[BaseModel]]:
    """Returns the pydantic models of all request bodies."""
    return list(_bodies.values())


def complete_document(app: FastAPI, settings: Settings, open_paths: frozenset[str]) -> None:
    """Adds the schemas of requests, and the ways to send an API key, to the OpenAPI document. Any
    thread can then ask for it.

    Args:
        open_paths: the paths that need no key.
    """
    make = app.openapi
    lock = threading.Lock()

    def make_complete() -> JsonObject:
        with lock:
            return make_once()

    def make_once() -> JsonObject:
        if app.openapi_schema is None:
            document = make()
            schemas = dict(sorted(_describe_bodies().items()))
            document["components"] = {"schemas": schemas, "securitySchemes": _SCHEMES}
            known: list[JsonObject] = [{name: []} for name in _SCHEMES]
            document["security"] = known if settings.api_keys else [{}, *known]
            _open(document["paths"], open_paths)
            _drop_schemas_of_replies(document["paths"])
            _describe_parameters(document)
        return make()

    app.openapi = make_complete


def _describe_bodies() -> JsonObject:
    kinds: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    for kind in _bodies.values():
        kinds.append((kind, "validation"))
    _, described = models_json_schema(kinds, ref_template=REFERENCES)
    return described["$defs"]


def _open(paths: Mapping[str, JsonObject], open_paths: frozenset[str]) -> None:
    for path in open_paths & paths.keys():
        for operation in paths[path].values():
            operation["security"] = []


def _drop_schemas_of_replies(paths: Mapping[str, JsonObject]) -> None:
    """Removes what FastAPI adds: schemas of replies, and the 422 error of paths with a query, since
    this server uses another status."""
    for item in paths.values():
        for operation in item.values():
            replies: JsonObject = operation["responses"]
            if replies.get("422", {}).get("description") == "Validation Error":
                del replies["422"]
            for reply in replies.values():
                reply["content"] = {media_type: {} for media_type in reply["content"]}


def _describe_parameters(document: JsonObject) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                parameter["description"] = _PARAMETERS[parameter["name"]]
