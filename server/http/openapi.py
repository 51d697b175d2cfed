"""The OpenAPI document: the requests and replies of all paths.

Requests are described by the pydantic models that validate them, replies by typed dictionaries.
FastAPI cannot find either by itself, since paths read their bodies off the event loop, and replies
may be streams.
"""

import threading
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin

from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from typing_extensions import TypedDict

from server.settings import Settings

Json = dict[str, Any]
Responses = dict[int | str, Json]
REFERENCES = "#/components/schemas/{model}"
EVENTS = "text/event-stream"
JSON = "application/json"
_kinds: dict[str, tuple[Any, JsonSchemaMode]] = {}
"""The types in the document, by name."""
_SCHEMES: Json = {
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


class ErrorBody(TypedDict):
    """An error in OpenAI's form."""

    message: str
    """What is wrong, where, and what to do about it."""
    type: str
    """The group of the error."""
    param: str | None
    """A JSON pointer into the request; null: the error concerns no single part."""
    code: str | int | None
    """The kind of error, for programs; inside `error`, with status 503 the status, as in
    llama-server."""


class InnerError(ErrorBody):
    """An error with what only llama-server says of it."""

    n_prompt_tokens: NotRequired[int]
    """Of a request that does not fit into the context: its tokens, at least."""
    n_ctx: NotRequired[int]
    """The tokens that the context has room for."""


class ErrorReply(ErrorBody):
    """A request that was not answered: the error in OpenAI's form, and beside it in Mistral's."""

    error: InnerError
    object: Literal["error"]


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
_GENERATING = (400, 401, 404, 405, 413, 415, 422, 500, 502, 503, 504)


def _refer(kind: Any, mode: JsonSchemaMode = "serialization") -> Json:
    """Returns a reference to the schema of a type, which is added to the document."""
    if get_origin(kind) in (UnionType, Union):
        return {"anyOf": [_refer(branch, mode) for branch in get_args(kind)]}
    if get_origin(kind) is list:
        [item] = get_args(kind)
        return {"type": "array", "items": _refer(item, mode)}
    _kinds[kind.__name__] = (kind, mode)
    return {"$ref": REFERENCES.format(model=kind.__name__)}


def describe_body(kind: type[BaseModel], *examples: Json) -> Json:
    """Returns the body of a path, for FastAPI's `openapi_extra`.

    Args:
        kind: the pydantic model that validates it.
        examples: requests that the demo model can answer.
    """
    content: Json = {"schema": _refer(kind, "validation")}
    if examples:
        named = {f"example {number}": {"value": value} for number, value in enumerate(examples, 1)}
        content["examples"] = named
    return {"requestBody": {"required": True, "content": {JSON: content}}}


def describe_reply(kind: Any, chunk: Any = None, *, media_type: str = EVENTS) -> Responses:
    """Returns the reply of a path, for FastAPI's `responses`.

    Args:
        kind: the type of a whole reply.
        chunk: the type of an item of a stream: the data of an event, or a line; None: there is no
            stream.
        media_type: the media type of the stream.
    """
    content: Json = {JSON: {"schema": _refer(kind)}}
    description = "The reply"
    if chunk is not None:
        content[media_type] = {"schema": _refer(chunk)}
        part = "the data of each event" if media_type == EVENTS else "each line"
        description = f"The reply; where `stream` is asked for, {part} is as described"
    return {200: {"description": description, "content": content}}


def describe_text(media_type: str, description: str) -> Responses:
    """Returns the reply of a path that is not JSON."""
    return {
        200: {"description": description, "content": {media_type: {"schema": {"type": "string"}}}}
    }


def describe_errors(*statuses: int, kind: Any = ErrorReply) -> Responses:
    """Returns the errors of a path, for FastAPI's `responses`.

    Args:
        kind: the type of the errors.
    """
    content = {JSON: {"schema": _refer(kind)}}
    return {
        status: {"description": _DESCRIPTIONS[status], "content": content} for status in statuses
    }


def describe_generation_errors(kind: Any = ErrorReply) -> Responses:
    """Returns the errors of a path that generates text."""
    return describe_errors(*_GENERATING, kind=kind)


ERRORS = describe_generation_errors()
"""The errors of paths that generate text, in OpenAI's form."""


def list_requests() -> list[type[BaseModel]]:
    """Returns the pydantic models of all request bodies."""
    return [kind for kind, mode in _kinds.values() if mode == "validation"]


def complete_document(app: FastAPI, settings: Settings, open_paths: frozenset[str]) -> None:
    """Adds schemas, and the ways to send an API key, to the OpenAPI document. Any thread can then
    ask for it.

    Args:
        open_paths: the paths that need no key.
    """
    make = app.openapi
    lock = threading.Lock()

    def make_complete() -> Json:
        with lock:
            return make_once()

    def make_once() -> Json:
        if app.openapi_schema is None:
            document = make()
            parts = document.setdefault("components", {})
            schemas = parts.get("schemas", {}) | _describe_kinds()
            parts["schemas"] = dict(sorted(schemas.items()))
            parts["securitySchemes"] = _SCHEMES
            known: list[Json] = [{name: []} for name in _SCHEMES]
            document["security"] = known if settings.api_keys else [{}, *known]
            _open(document["paths"], open_paths)
            _drop_foreign_errors(document)
            _describe_parameters(document)
        return make()

    app.openapi = make_complete


def _describe_kinds() -> Json:
    kinds = list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]]()
    for name, (kind, mode) in _kinds.items():
        kinds.append((name, mode, TypeAdapter(kind)))
    _, described = TypeAdapter.json_schemas(kinds, ref_template=REFERENCES)
    return described["$defs"]


def _open(paths: Mapping[str, Json], open_paths: frozenset[str]) -> None:
    for path in open_paths & paths.keys():
        for operation in paths[path].values():
            operation["security"] = []


def _drop_foreign_errors(document: Json) -> None:
    """Removes the 422 error that FastAPI adds to paths with a query, since this server uses another
    status."""
    for item in document["paths"].values():
        for operation in item.values():
            reply = operation["responses"].get("422")
            if reply is not None and reply["description"] == "Validation Error":
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _describe_parameters(document: Json) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                parameter["description"] = _PARAMETERS[parameter["name"]]
