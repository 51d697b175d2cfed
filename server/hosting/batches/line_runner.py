"""Executes one line of a batch with the routes of its dialect, so it gets the same replies and
errors as a request."""

import asyncio
import json
import logging
from typing import Any

from starlette.types import ASGIApp, Message, Scope

from server.errors import HttpError, as_http_error, encode_openai_error
from server.hosting.batches.batch_input import BatchLine, LineResult
from server.http.caller import set_caller
from server.http.ids import make_id

LOG = logging.getLogger("constrained.server")
MIN_ERROR_STATUS = 400  # HTTP statuses from here on are errors
UNAVAILABLE = 503
OWNER = "batches"
"""All batches count as one client: together they get the share of one client, live requests the
rest."""


async def run_line(app: ASGIApp, line: BatchLine, key: bytes = b"") -> LineResult:
    """Executes a line. Cancelling the task ends its turns.

    Args:
        app: the routes of all dialects, without the gate: the upload of the batch has passed it.
        line: the request.
        key: the client's API key; empty: there is none.
    """
    if line.is_streamed:
        message = "a line of a batch cannot be streamed: leave stream out"
        refusal = HttpError(400, message, "unsupported_field", where="/stream")
        return LineResult(line.custom_id, 400, encode_openai_error(refusal))
    request_id = make_id("req_")
    # With the cache scope of the key.
    set_caller(key or None, owner=OWNER, background=True, request_id=request_id)
    exchange = _Exchange(line.body)
    try:
        await app(make_scope(line, key), exchange.receive, exchange.send)
    except Exception as error:
        if exchange.status is None:
            raise
        if exchange.status < MIN_ERROR_STATUS:  # the error came in the middle of its reply
            fault = as_http_error(_find_cause(error))
            body = encode_openai_error(fault)
            return LineResult(line.custom_id, fault.status, body, request_id=request_id)
        # The route has failed. Its error is in the reply and in the log; Starlette raises it once
        # more for the server.
    body = _read_body(exchange.body)
    return LineResult(
        line.custom_id,
        exchange.status,
        body,
        request_id=request_id,
        may_retry=exchange.may_retry,
    )


def _find_cause(error: Exception) -> Exception:
    """Returns the error that a route has raised. If its reply had begun, Starlette wraps it in
    another error."""
    return error.__cause__ if isinstance(error.__cause__, Exception) else error


def _read_body(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:  # no dialect sends such a body
        return body.decode("utf-8", "replace")


def make_scope(line: BatchLine, key: bytes) -> Scope:
    """Returns the ASGI scope of a line's request, with the API key if there is one."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(line.body)).encode()),
    ]
    if key:
        headers.append((b"authorization", b"Bearer " + key))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": line.url,
        "raw_path": line.url.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": None,
        "server": None,
    }


class _Exchange:
    """A request and its reply without a connection. The client never disconnects."""

    def __init__(self, body: bytes):
        self._request = body
        self._is_read = False
        self.status: int | None = None
        self.may_retry = False
        self.body = b""

    async def receive(self) -> Message:
        if self._is_read:
            await asyncio.Event().wait()
        self._is_read = True
        return {"type": "http.request", "body": self._request, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            names = {name.lower() for name, _ in message.get("headers", ())}
            self.may_retry = self.status == UNAVAILABLE and b"retry-after" in names
        else:
            self.body += message.get("body", b"")
