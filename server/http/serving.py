"""Shared by the paths of all dialects: the model that is served, and the errors that the OpenAPI
description lists."""

import hashlib
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from server.http.disconnects import wait_for_client
from server.http.gate import find_key
from server.models.leases import hold
from server.models.served_models import ServedModels
from server.turns.service import Service

Responses = dict[int | str, dict[str, Any]]


class ErrorBody(BaseModel):
    """The message and the type of an error."""

    message: str
    type: str


class ErrorReply(BaseModel):
    """A request that was not answered."""

    error: ErrorBody


_DESCRIPTIONS = {
    400: "The request cannot be carried out as it stands",
    401: "The API key is missing or not known",
    404: "There is no such thing",
    405: "The path knows no such method",
    413: "The request is too large",
    415: "The body is not JSON by its header",
    422: "The reply does not fit a keyword of its schema that is only checked",
    500: "The server failed",
    501: "The model, or this server, cannot do that",
    503: "The model is loading, or too many requests are waiting",
    504: "The time for the request was over",
}


def describe_errors(*statuses: int) -> Responses:
    """The errors of a path, as FastAPI's `responses` wants them."""
    return {
        status: {"model": ErrorReply, "description": _DESCRIPTIONS[status]} for status in statuses
    }


ERRORS = describe_errors(400, 401, 404, 405, 413, 415, 422, 500, 503, 504)
"""The errors of paths that generate."""


async def find_service(request: Request) -> Service:
    """The model that a request without a body asks for, as `find_named_service`: its query may
    name it."""
    return await find_named_service(request, request.query_params.get("model"))


async def find_named_service(request: Request, name: str | None) -> Service:
    """The model of this name, which stays loaded until the answer to the request is complete.

    Args:
        request: its body, if it has one, has been read: the wait for a model would take it.
        name: None: the request names none.

    Raises:
        HttpError: there is none of that name, or it cannot be loaded; the client has gone away.
    """
    models: ServedModels = request.app.state.models
    model = await wait_for_client(request, models.acquire(name))
    hold(request.scope, model)
    assert model.service is not None, "who has acquired it keeps it loaded"
    return model.service


def find_key_owner(request: Request) -> str:
    """The owner of what a request keeps on the server, and finds there: a hash of its API key; ""
    where no key is needed."""
    if not request.app.state.settings.api_keys:
        return ""
    return name_owner(find_key(request.scope["headers"]))


def name_owner(key: bytes) -> str:
    """The owner that holds an API key."""
    return hashlib.sha256(key).hexdigest()
