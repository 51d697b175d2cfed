"""An HTTP client for engines: JSON and server-sent events, bounded replies, failures as errors."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from constrained.errors import RemoteError
from constrained.remote.address import Address
from grammars.schema.json_values import JsonObject

CONNECT_SECONDS = 5.0
STALL_SECONDS = 300.0
"""Maximum time without an event. A CPU may read a long prompt for minutes before the first
token."""
BUSY = (429, 503)
FIELDS = (b"", b"event", b"id", b"retry")
"""Names of lines that are ignored; a line without a name is a comment, which keeps the connection
open."""
MAX_LINE = 4 << 20  # bytes of an event
MAX_BODY = 64 << 20  # bytes of a reply that is not a stream
MAX_FAULT = 64 << 10  # bytes that are read of an error reply
MAX_SHOWN_LENGTH = 300  # characters of an engine's error message
DONE = b"[DONE]"
KEEP_ALIVE_SECONDS = 2
"""How long an idle connection is kept. llama-server and uvicorn close it after 5 s; a request that
is sent just then fails."""
HINTS = {
    401: "Give the engine's API key (api_key, --backend-key)",
    403: "Give the engine's API key (api_key, --backend-key)",
    404: "Check the address, and that it names the right kind of engine",
    429: "Try again later",
    503: "It may still be loading its model, or be busy: try again later",
}


class HttpClient:
    """A client of one engine, for one event loop.

    Args:
        api_key: of the engine; None: it needs none.
        stall_seconds: the maximum time without an event; comments in a stream do not count.
    """

    def __init__(
        self, address: Address, api_key: str | None = None, *, stall_seconds: float = STALL_SECONDS
    ):
        self.address = address
        self._stall_seconds = stall_seconds
        headers = {"Accept-Encoding": "identity"}  # a small compressed body may unpack to any size
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # Proxies of the environment are for the Internet; engines are reached directly. Redirects
        # are not followed: they would send the prompt and the key to another server.
        self._client = httpx.AsyncClient(
            base_url=address.url,
            headers=headers,
            timeout=httpx.Timeout(
                connect=CONNECT_SECONDS, read=stall_seconds, write=stall_seconds, pool=None
            ),
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=20,
                keepalive_expiry=KEEP_ALIVE_SECONDS,
            ),
            trust_env=False,
        )

    async def get(self, path: str, *, former: str | None = None) -> JsonObject:
        """Gets the JSON object at a path.

        Args:
            former: the path in former versions; None: the same.
        """
        try:
            return await self._exchange("GET", path, None)
        except RemoteError as error:
            if former is None or error.status != 404:
                raise
        return await self._exchange("GET", former, None)

    async def get_text(self, path: str) -> str | None:
        """Gets the text at a path; None: there is none. Raises RemoteError."""
        try:
            async with self._send("GET", path, None) as response:
                body = await self._read(response, MAX_BODY)
        except RemoteError as error:
            if error.status in (401, 403, 404):
                return None
            raise
        return body.decode("utf-8", "replace")

    async def post(self, path: str, body: JsonObject) -> JsonObject:
        """Posts an object; returns the object of the reply. Raises RemoteError."""
        return await self._exchange("POST", path, body)

    async def _exchange(self, method: str, path: str, body: JsonObject | None) -> JsonObject:
        async with self._send(method, path, body) as response:
            try:
                async with asyncio.timeout(self._stall_seconds):
                    return self._read_object(await self._read(response, MAX_BODY), path)
            except TimeoutError as error:
                raise self._fail_stalled() from error

    async def stream(self, path: str, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """Posts an object; yields the events of the reply as objects. Closing the generator closes
        the connection, and the engine stops."""
        async with self._send("POST", path, body) as response:
            kind = response.headers.get("content-type", "")
            if not kind.startswith("text/event-stream"):
                text = (await self._read(response, MAX_FAULT)).decode("utf-8", "replace")
                message = f"it answers {path} with {kind or 'no type'}, not with a stream"
                raise self._fail(f"{message}: {_shorten(text)}")
            has_started = False
            async for data in self._read_data(response):
                if data == DONE:
                    return
                event = self._read_object(data, path)
                if fault := event.get("error"):
                    raise self._describe_event(fault, has_started=has_started)
                has_started = True
                yield event

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, body: JsonObject | None
    ) -> AsyncGenerator[httpx.Response, None]:
        try:
            async with self._client.stream(method, path, json=body) as response:
                if response.status_code != 200:
                    raise await self._describe_status(response, path)
                yield response
        except httpx.ConnectError as error:
            hint = "Start the engine, and check host and port"
            raise self._fail(f"no connection: {error}", hint=hint, is_away=True) from error
        except httpx.ConnectTimeout as error:
            message = f"no connection within {CONNECT_SECONDS:g} s"
            raise self._fail(message, hint="Check host and port", is_away=True) from error
        except httpx.TimeoutException as error:
            raise self._fail_stalled() from error
        except httpx.HTTPError as error:
            cause = str(error) or type(error).__name__
            raise self._fail(f"the connection broke: {cause}", hint="Look at its log") from error

    async def _describe_status(self, response: httpx.Response, path: str) -> RemoteError:
        status = response.status_code
        text = (await self._read(response, MAX_FAULT, cut=True)).decode("utf-8", "replace")
        try:
            fault = json.loads(text)
        except ValueError:
            fault = text
        if isinstance(fault, dict):
            fault = fault.get("error", fault.get("detail", fault))
        message = f"status {status} for {path}"
        if fault:
            message = f"{message}: {_describe_fault(fault)}"
        retry_after = None
        if status in BUSY:
            retry_after = _read_seconds(response.headers.get("retry-after", ""))
        return self._fail(
            message,
            hint=HINTS.get(status),
            status=status,
            is_away=status == 503,
            retry_after=retry_after,
        )

    def _describe_event(self, fault: Any, *, has_started: bool) -> RemoteError:
        """Makes the error for an error event in a stream with status 200."""
        message = f"it says: {_describe_fault(fault)}"
        status = fault.get("code") if isinstance(fault, dict) else None
        if type(status) is not int:
            return self._fail(message)
        return self.refuse(status, message, has_started=has_started)

    def refuse(self, status: int, message: str, *, has_started: bool) -> RemoteError:
        """Makes the error for a status of HTTP that an event of a stream has.

        Args:
            has_started: the engine had sent tokens before; then the request is not repeated.
        """
        is_busy = status in BUSY and not has_started
        return self._fail(message, status=status, retry_after=0.0 if is_busy else None)

    async def _read(self, response: httpx.Response, max_bytes: int, *, cut: bool = False) -> bytes:
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > max_bytes:
                if cut:
                    break
                raise self._fail(f"its answer has more than {max_bytes} bytes")
        return bytes(body[:max_bytes])

    async def _read_data(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yields the data of each event; of other lines, only errors count."""
        rest = bytearray()
        heard = time.monotonic()
        async for part in response.aiter_bytes():
            if time.monotonic() - heard > self._stall_seconds:
                raise self._fail_stalled()
            rest += part
            lines = list[bytearray]()
            if b"\n" in part:  # otherwise a long line in small parts would be split again and again
                *lines, rest = rest.split(b"\n")
            if len(rest) > MAX_LINE:
                raise self._fail(f"a line of its stream has more than {MAX_LINE} bytes")
            for line in lines:
                field, _, value = line.rstrip(b"\r").partition(b":")
                if field == b"error":
                    text = value.decode("utf-8", "replace").strip()
                    raise self._fail(f"it says: {_shorten(text)}")
                if field == b"data":
                    yield bytes(value.strip())
                    heard = time.monotonic()
                elif field not in FIELDS:
                    text = _shorten(line.decode("utf-8", "replace"))
                    raise self._fail(f"a line of its stream does not belong to an event: {text}")
        if rest.strip():
            raise self._fail("the stream ended in the middle of an event")

    def _read_object(self, data: bytes, path: str) -> JsonObject:
        try:
            read = json.loads(data)
        except (ValueError, RecursionError) as error:
            text = _shorten(data.decode("utf-8", "replace"))
            raise self._fail(f"its answer to {path} is not JSON: {text}") from error
        if not isinstance(read, dict):
            text = _shorten(data.decode("utf-8", "replace"))
            raise self._fail(f"its answer to {path} is not an object: {text}")
        return read

    def _fail_stalled(self) -> RemoteError:
        message = f"it was silent for {self._stall_seconds:g} s"
        hint = "It may hang: look at its log; --backend-timeout sets how long it may be silent"
        return self._fail(message, hint=hint)

    def _fail(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        is_away: bool = False,
        retry_after: float | None = None,
    ) -> RemoteError:
        return RemoteError(
            f"{self.address}: {message}",
            hint=hint,
            is_outage=status is None or status > 429,
            is_away=is_away,
            retry_after=retry_after,
            status=status,
        )

    async def close(self) -> None:
        """Closes all connections; further calls do nothing."""
        await self._client.aclose()


def _read_seconds(text: str) -> float:
    """Reads a Retry-After header, which has seconds or a date; 0: it is neither."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0


def _describe_fault(fault: Any) -> str:
    if isinstance(fault, dict) and isinstance(fault.get("message"), str):
        fault = fault["message"]
    return _shorten(fault if isinstance(fault, str) else json.dumps(fault))


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + " ..."
