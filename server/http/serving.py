"""Shared by the paths of all dialects: the model that is served, and the errors that the OpenAPI
description lists."""

import asyncio
import hashlib
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from server.http.body import receive_body
from server.http.disconnects import wait_for_client
from server.http.gate import find_key
from server.http.json_body import read_json
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
    """The model that a request asks for, which stays loaded until its answer is complete.

    Of several, it is that of the field `model` of the body, or of the query.

    Raises:
        HttpError: there is none of that name, or it cannot be loaded; the client has disconnected.
    """
    models: ServedModels = request.app.state.models
    name = None
    if models.has_choice:
        name = request.query_params.get("model") or await _read_model_name(request)
    if request.method == "POST":
        await receive_body(request)  # before a wait for the client, which would take it
    model = await wait_for_client(request, models.acquire(name))
    hold(request.scope, model)
    assert model.service is not None, "who has acquired it keeps it loaded"
    return model.service


async def _read_model_name(request: Request) -> str | None:
    """The field `model` of a body; None where it is not there, or no text: then it is for the
    dialect to say so."""
    if request.method != "POST":
        return None
    body = await receive_body(request)
    most = request.app.state.settings.max_values
    value = await asyncio.to_thread(read_json, body, most_values=most)
    name = value.get("model") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def find_key_owner(request: Request) -> str:
    """The owner of what a request keeps on the server, and finds there: a hash of its API key; ""
    where no key is needed."""
    if not request.app.state.settings.api_keys:
        return ""
    return name_owner(find_key(request.scope["headers"]))


def name_owner(key: bytes) -> str:
    """The owner that holds an API key."""
    return hashlib.sha256(key).hexdigest()
