"""Errors of requests in HTTP: status, code, and OpenAI's JSON form."""

import logging
from math import ceil
from typing import Any

from constrained.errors import (
    BusyError,
    ContextError,
    DeadlineError,
    GrammarError,
    ModelError,
    RemoteError,
    ReplyError,
)
from grammars.errors import Error

RETRY_AFTER = 1  # seconds
MAX_SHOWN = 4_000
"""The maximum characters of a message, and of a pointer: both quote text of clients."""
INTERNAL = "internal_error"
UNSUPPORTED_ENCODING = "unsupported_encoding"
LOG = logging.getLogger("constrained.server")
OPENAI_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_reply_error",
    501: "not_supported_error",
    503: "unavailable_error",
    504: "timeout_error",
}


class StoreError(Error):
    """The store cannot be reached, or refuses a request."""


STATUSES: tuple[tuple[type[Error], int, str], ...] = (
    (BusyError, 503, "queue_full"),
    (DeadlineError, 504, "deadline_exceeded"),
    (ContextError, 400, "context_length_exceeded"),
    (ModelError, 503, "model_unavailable"),
    (RemoteError, 502, "remote_engine_failed"),
    (StoreError, 503, "store_unavailable"),
    (ReplyError, 422, "reply_does_not_fit"),
    (Error, 400, "invalid_value"),
)


class HttpError(Error):
    """A request fails, with this status and reason. Whatever reads a part of a request raises it,
    with the JSON pointer to what is invalid.

    Args:
        message: the middle of a long one is left out, and so is that of `where`.
        retry_after: for status 503: seconds after which to try again; None: that would not help,
            here or at another server of the same kind.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        *,
        where: str | None = None,
        retry_after: float | None = RETRY_AFTER,
    ):
        if where is not None:
            where = cut_middle(where)
        super().__init__(cut_middle(message), where=where)
        self.status = status
        self.code = code
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if self.code == INTERNAL:  # uvicorn closes the connection, and the client has to know
            return {"Connection": "close"}
        if self.code == UNSUPPORTED_ENCODING:  # RFC 9110, 15.5.16: names what would be accepted
            return {"Accept-Encoding": "identity"}
        if self.status == 503 and self.retry_after is not None:
            return {"Retry-After": str(max(RETRY_AFTER, ceil(self.retry_after)))}
        if self.status in (501, 503):  # the SDKs of OpenAI and Anthropic would try again
            return {"X-Should-Retry": "false"}
        return {}


def refuse(message: str, where: str | None = None, code: str = "invalid_value") -> HttpError:
    """Returns the error of a request that has to be changed, with status 400."""
    return HttpError(400, message, code, where=where)


def cut_middle(text: str, max_length: int = MAX_SHOWN) -> str:
    """Returns the text, without its middle if it is too long. An error says at its end what to
    do."""
    if len(text) <= max_length:
        return text
    half = max_length // 2
    return f"{text[:half]} [{len(text) - 2 * half:,} characters] {text[-half:]}"


def encode_openai_error(error: HttpError) -> dict[str, Any]:
    """Returns the body of an error in OpenAI's form. Beside it are the same fields in Mistral's
    form, which has no object around them: Mistral's clients ask on the same paths."""
    kind = OPENAI_TYPES.get(error.status, "server_error")
    body = {"message": error.message, "type": kind, "param": error.where, "code": error.code}
    openai = dict(body)
    cause = error.__cause__
    if isinstance(cause, ContextError) and cause.tokens is not None:  # as in llama-server
        openai |= {"n_prompt_tokens": cause.tokens, "n_ctx": cause.room}
    if error.status == 503:
        openai["code"] = error.status  # as in llama-server
    return {"error": openai, "object": "error", **body}


def as_http_error(error: Exception) -> HttpError:
    """Converts an error to the form for clients. Errors of the library keep their message; all
    others are faults of the server and get a general one."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, GrammarError) and error.where is None:  # not a fault of the request
        return HttpError(500, str(error), "grammar_failed")
    if isinstance(error, RemoteError) and error.retry_after is not None:
        busy = HttpError(503, str(error), "remote_engine_busy", retry_after=error.retry_after)
        busy.__cause__ = error
        return busy
    for kind, status, code in STATUSES:
        if isinstance(error, kind):
            fault = HttpError(status, str(error), code, where=error.where)
            fault.__cause__ = error  # a dialect may describe it in its own words
            return fault
    return HttpError(500, "the server failed; its log says why", INTERNAL)


def log_error(error: Exception) -> None:
    """Logs an error whose message the client does not get. Messages for clients may quote the
    conversation, so they are not logged."""
    fault = as_http_error(error)
    if isinstance(error, Error):
        place = "" if fault.where is None else f", at {fault.where!r:.100}"
        LOG.info("status %d, %s%s", fault.status, fault.code, place)
    else:
        LOG.error("the server failed", exc_info=error)
