"""What the paths share: the model that is served, and how faults are told."""

import logging
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from constrained.errors import Error
from server.errors import HttpError, as_http_error
from server.turns.turn_request import Service

LOG = logging.getLogger("constrained.server")


class ErrorBody(BaseModel):
    """What a fault says."""

    message: str
    type: str


class ErrorReply(BaseModel):
    """A request that was not answered."""

    error: ErrorBody


ANSWERS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": text}
    for status, text in {
        400: "The request cannot be carried out as it stands",
        401: "The API key is missing or not known",
        404: "There is no such thing",
        405: "The path knows no such method",
        413: "The request is too large",
        500: "The server failed, or the reply does not fit a keyword that is only checked",
        503: "The model is loading, or too many requests are waiting",
        504: "The time for the request was over",
    }.items()
}


def find_service(request: Request) -> Service:
    """The model that is served.

    Raises:
        HttpError: it is not loaded yet.
    """
    service = request.app.state.service
    if request.app.state.failure is not None:
        message = f"the model cannot be loaded: {request.app.state.failure}"
        raise HttpError(503, message, "model_unavailable")
    if service is None:
        raise HttpError(503, "Loading model", "loading_model")
    return service


def note_error(error: Exception) -> None:
    """Writes to the log what a client is not told. What it is told may quote the conversation, and
    is not written."""
    fault = as_http_error(error)
    if isinstance(error, Error):
        LOG.info("status %d, %s, at %.100r", fault.status, fault.code, fault.where)
    else:
        LOG.error("the server failed", exc_info=error)
