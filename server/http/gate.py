"""The gate that every request passes: it checks the API key and the size of the body. Plain ASGI,
so that it does not buffer streams."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import UNSUPPORTED_ENCODING, HttpError, as_http_error, log_error, refuse
from server.http.caller import set_caller
from server.http.dialect import Dialect, find_dialect
from server.http.ids import make_id
from server.settings import MIN_RATE, Settings

OPEN = frozenset({"/health", "/v1/health", "/", "/playground", "/playground/trace"})
"""Paths that need no API key."""
GIVEN_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
"""The form of an `X-Request-Id` that is accepted from a client."""
PREFLIGHT = "access-control-request-method"
"""The header of a browser's question whether a page may send a request."""
_ABSOLUTE = re.compile(rb"https?://(?P<host>[^/]*)(?P<path>/.*)?", re.IGNORECASE | re.DOTALL)
"""The target of a request that is a whole URL, without its query."""
_SLASHES = re.compile("/{2,}")
NoteRequest: TypeAlias = Callable[[str, int], None]
"""Is told of each reply: the path of its route, and its status."""
KEY_HINT = (
    "send it as `Authorization: Bearer KEY`, or in the header `x-api-key` or `api-key`; the key is "
    "one of --api-key"
)


KEY_HEADERS = ("x-api-key", "api-key")
"""Headers with a bare API key: that of Anthropic's SDKs, and that of Azure's."""


def find_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns the API key in the headers of an ASGI scope, checked or not; empty if there is none.
    Of repeated headers, the last one counts."""
    values = {name.lower(): value for name, value in headers}
    scheme, _, token = values.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return token.strip()
    for name in KEY_HEADERS:
        if name.encode() in values:
            return values[name.encode()]
    return b""


class Cors(CORSMiddleware):
    """Allows web pages of some origins to send requests. The others are left to the gate behind it,
    whose errors have the form of the dialect."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = Headers(scope=scope).get("origin", "") if scope["type"] == "http" else ""
        if self.is_allowed_origin(origin):
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class Gate:
    """Lets a request through if its API key is valid (or none is needed) and its body is not too
    large. Answers a bare OPTIONS with 200."""

    def __init__(
        self,
        app: ASGIApp,
        dialects: Sequence[Dialect],
        settings: Settings,
        note_request: NoteRequest,
    ):
        self._app = app
        self._dialects = dialects
        self._note_request = note_request
        self._keys = [key.encode() for key in settings.api_keys]
        self._max_body = settings.max_body
        self._body_seconds = settings.idle_seconds
        self._allowed_hosts = settings.allowed_hosts
        self._origins = settings.cors_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # none is served, and the gate checks none
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # Answered like GET. uvicorn's own scope still says HEAD, so it leaves out the body.
            scope = {**scope, "method": "GET"}
        scope = _tidy_path(_read_absolute_target(scope))
        headers = Headers(scope=scope)
        dialect = find_dialect(self._dialects, scope["path"])
        request_id = headers.get("x-request-id", "")
        if not GIVEN_ID.fullmatch(request_id):
            request_id = make_id("req_")
        has_started = False

        async def reply(message: Message) -> None:
            """Counts the reply, and adds the id of its request."""
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                # FastAPI sets the route. Without a route, any path is possible, and each would get
                # a counter of its own.
                path = getattr(scope.get("route"), "path", "other")
                self._note_request(path, message["status"])
                ids = [(name, request_id.encode()) for name in dialect.id_headers]
                message["headers"] = [*message.get("headers", ()), *ids]
            await send(message)

        if scope["method"] == "OPTIONS" and PREFLIGHT not in headers:
            await Response("{}", media_type="application/json")(scope, receive, reply)
            return
        fault = self._find_foreign(scope["method"], headers) or self._find_fault(scope, headers)
        if fault is not None:
            await dialect.answer(fault)(scope, receive, reply)
            return
        set_caller(find_key(scope["headers"]) if self._keys else None, request_id=request_id)
        body = _Limited(receive, self._max_body, self._body_seconds)
        try:
            await self._app(scope, body, reply)
        except Exception as error:  # the application answers errors of clients itself
            if has_started:
                raise
            log_error(error)
            await dialect.answer(as_http_error(error))(scope, receive, reply)

    def _find_foreign(self, method: str, headers: Headers) -> HttpError | None:
        """Returns the error of a request that another site's web page may have sent; None: there is
        none."""
        for name in ("authorization", *KEY_HEADERS):
            if len(headers.getlist(name)) > 1:
                message = f"there are two {name.title()} headers: send one"
                return refuse(message, code="invalid_request")
        origin = headers.get("origin", "")
        if self._allowed_hosts is not None:
            host = _read_host(headers.get("host", ""))
            if host not in self._allowed_hosts:
                hosts = ", ".join(self._allowed_hosts)
                hint = f"use one of {hosts}, or start the server with --allowed-hosts"
                message = f"the Host {host!r} is not this server: {hint}"
                return HttpError(403, message, "unknown_host")
            if origin and not self._is_own(origin, self._allowed_hosts):
                return _make_foreign(origin)
        if method == "OPTIONS":  # a browser asks for a page; `Cors` has answered what it may
            return _make_foreign(origin)
        return None

    def _is_own(self, origin: str, allowed: Sequence[str]) -> bool:
        """Desktop programs use special schemes."""
        if origin in self._origins or "*" in self._origins:
            return True
        scheme, _, rest = origin.partition("://")
        is_web = origin == "null" or scheme.lower() in ("http", "https")
        return not is_web or _read_host(rest) in allowed

    def _find_fault(self, scope: Scope, headers: Headers) -> HttpError | None:
        path = scope["path"]
        if self._keys and path not in OPEN and not self._is_valid_key(find_key(scope["headers"])):
            message = f"the API key is missing or invalid: {KEY_HINT}"
            return HttpError(401, message, "invalid_api_key")
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            message = f"the body is encoded as {encoding[:100]!r}: send it without Content-Encoding"
            return HttpError(415, message, UNSUPPORTED_ENCODING)
        size = headers.get("content-length", "0")
        if size.isascii() and size.isdigit() and int(size) > self._max_body:
            return _make_too_large(self._max_body)
        return None

    def _is_valid_key(self, given: bytes) -> bool:
        """Returns whether the key is valid. Compares it with every key in constant time, so that
        the time reveals nothing."""
        matches = [secrets.compare_digest(given, key) for key in self._keys]
        return any(matches)


def _make_foreign(origin: str) -> HttpError:
    hint = f"start the server with --cors-origin {origin}"
    message = f"pages of {origin!r} may not send requests: {hint}"
    return HttpError(403, message, "unknown_origin")


def _make_too_large(max_bytes: int) -> HttpError:
    message = f"the request is larger than {max_bytes:,} bytes: send less, or raise --max-body"
    return HttpError(413, message, "request_too_large", where="")


def _read_absolute_target(scope: Scope) -> Scope:
    """Returns the scope of a request whose target is a whole URL, as clients send it to a proxy,
    with its path alone. The host of the URL then counts, not the Host header (RFC 9112, 3.2.2).
    Other requests stay as they are."""
    found = _ABSOLUTE.fullmatch(scope.get("raw_path") or b"")
    if found is None:
        return scope
    others = [(name, value) for name, value in scope["headers"] if name.lower() != b"host"]
    raw_path = found["path"] or b"/"
    return {
        **scope,
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "headers": [(b"host", found["host"]), *others],
    }


def _tidy_path(scope: Scope) -> Scope:
    """Returns the scope with the path that the client means, if it has joined it from a base URL
    with a slash too many: `//v1/models`, `/v1/models/`. A redirect would not do: many clients
    follow none, or drop the body."""
    path = _SLASHES.sub("/", scope["path"])
    if len(path) > 1:
        path = path.removesuffix("/")
    return scope if path == scope["path"] else {**scope, "path": path}


def _read_host(text: str) -> str:
    name, colon, port = text.strip().lower().rpartition(":")
    return name if colon and port.isdigit() else text.strip().lower()


class _Limited:
    """The body of a request, limited in size, for bodies without a length header, and in time.

    Args:
        seconds: the limit for the time until the next part arrives. For all parts together, it is
            this plus the time that their bytes may take at `MIN_RATE`.
    """

    def __init__(self, receive: Receive, max_bytes: int, seconds: float):
        self._receive = receive
        self._max_bytes = max_bytes
        self._seconds: float | None = seconds
        self._size = 0
        self._began = time.monotonic()

    def _find_patience(self) -> float | None:
        """None: the body is complete."""
        if self._seconds is None:
            return None
        end = self._began + self._seconds + self._size / MIN_RATE
        return min(self._seconds, max(0.0, end - time.monotonic()))

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout(self._find_patience()):
                message = await self._receive()
        except TimeoutError:
            slow = f"{self._seconds:g} seconds, or less than {MIN_RATE:,} bytes a second"
            fault = f"no data of the body arrived for {slow}"
            raise HTTPException(408, fault, {"Connection": "close"}) from None
        if not message.get("more_body"):
            self._seconds = None  # the only further message is the disconnect, at any time
        self._size += len(message.get("body", b""))
        if self._size > self._max_bytes:
            raise _make_too_large(self._max_bytes)
        return message
