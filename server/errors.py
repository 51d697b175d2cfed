"""What went wrong, as HTTP says it, in the shape of each dialect."""

from enum import StrEnum
from typing import Any

from constrained.errors import (
    BusyError,
    ContextError,
    DeadlineError,
    GrammarError,
    ModelError,
    ReplyError,
)
from grammars.errors import Error

RETRY_AFTER = 1  # seconds
INTERNAL = "internal_error"


class Dialect(StrEnum):
    """Whose shapes a client expects."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    503: "overloaded_error",
    504: "timeout_error",
}
OPENAI_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    503: "unavailable_error",
    504: "timeout_error",
}
STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (BusyError, 503, "queue_full"),
    (DeadlineError, 504, "deadline_exceeded"),
    (ContextError, 400, "context_length_exceeded"),
    (ModelError, 503, "model_unavailable"),
    (ReplyError, 500, "reply_does_not_fit"),
    (Error, 400, "invalid_value"),
)


class HttpError(Error):
    """A request that is not answered, and why.

    Args:
        status: of HTTP.
        message: what is wrong and what to do.
        code: the kind of error, for programs.
        where: a JSON pointer into the request, or None.
    """

    def __init__(self, status: int, message: str, code: str, where: str | None = None):
        super().__init__(message, where=where)
        self.status = status
        self.code = code

    def to_json(self, dialect: Dialect = Dialect.OPENAI) -> dict[str, Any]:
        """The body of the reply."""
        if dialect is Dialect.ANTHROPIC:
            kind = ANTHROPIC_TYPES.get(self.status, "api_error")
            error = {"type": kind, "message": self._placed_message}
            return {"type": "error", "error": {**error, "details": {"error_code": self.code}}}
        kind = OPENAI_TYPES.get(self.status, "server_error")
        code = self.status if self.status == 503 else self.code  # as llama-server has it
        error = {"message": self.message, "type": kind, "param": self.where, "code": code}
        return {"error": error}

    @property
    def _placed_message(self) -> str:
        """The message with the place, for which the dialect has no field."""
        if not self.where or self.where in self.message:
            return self.message
        return f"{self.message} (at {self.where})"

    @property
    def headers(self) -> dict[str, str]:
        """Those that belong to the status."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if self.code == INTERNAL:  # uvicorn closes the connection, and the client has to know
            return {"Connection": "close"}
        return {"Retry-After": str(RETRY_AFTER)} if self.status == 503 else {}


def as_http_error(error: Exception) -> HttpError:
    """What an error of the library is for a client; others are ours, and say nothing."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, GrammarError) and error.where is None:  # not that of the request
        return HttpError(500, str(error), "grammar_failed")
    for kind, status, code in STATUSES:
        if isinstance(error, kind):
            where = error.where if isinstance(error, Error) else None
            return HttpError(status, str(error), code, where)
    return HttpError(500, "the server failed; its log says why", INTERNAL)
