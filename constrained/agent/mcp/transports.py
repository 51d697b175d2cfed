"""The transports to a server, those of the package `mcp`.

Over HTTP, the length of replies is limited, because the package reads a whole body. A command has
no limits: it runs with all rights of the user anyway.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import IO, Any, TypeAlias

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from constrained.agent.mcp.server import HttpTransport, McpServer, ServerAddress, ServerCommand

Transport: TypeAlias = AbstractAsyncContextManager[tuple[Any, Any]]
"""Opens a stream to read messages from, and one to write them to."""

MAX_MESSAGE_LENGTH = 32 * 1024 * 1024
"""The maximum number of bytes of a server's message; images and files are single messages, too."""
EVENTS = "text/event-stream"
PLAIN = ("", "identity")
STREAMED = ("GET", "POST")
"""Methods whose replies streamable HTTP reads event by event."""
STREAMED_BY_SSE = ("GET",)


class RefusedBodyError(httpx2.StreamError):
    """A body is refused; the package answers the request with this message."""


class BoundedBody(httpx2.AsyncByteStream):
    """A body that fails if it is longer than a message may be, or at once if it is compressed: we
    do not request compression, and a few compressed bytes may become gigabytes of text.

    Args:
        encoding: its `Content-Encoding`.
        is_stream: the body may have any length, because it is read event by event and each event
            has a limit.
    """

    def __init__(self, body: httpx2.AsyncByteStream, encoding: str, *, is_stream: bool):
        self._body = body
        self._encoding = encoding.strip()
        self._max_bytes = None if is_stream else MAX_MESSAGE_LENGTH

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding.lower() not in PLAIN:
            raise RefusedBodyError(f"the body is compressed ({self._encoding[:100]}), unasked")
        length = 0
        async for piece in self._body:
            length += len(piece)
            if self._max_bytes is not None and length > self._max_bytes:
                raise RefusedBodyError(f"the body is longer than {self._max_bytes:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def list_transports(server: McpServer, log: IO[str], seconds: float) -> Iterator[Transport]:
    """Yields the transports to try for a server, in order. `log` gets what a command prints on
    stderr; `seconds` limits a connection over HTTP."""
    if isinstance(server, ServerCommand):
        env = dict(server.env)
        parameters = StdioServerParameters(
            command=server.command, args=[*server.args], env=env, cwd=server.cwd
        )
        yield stdio_client(parameters, errlog=log)  # type: ignore[arg-type]  any open file will do
        return
    if server.transport is not HttpTransport.SSE:
        yield _make_streamable(server, seconds)
    if server.transport is not HttpTransport.STREAMABLE:
        make_client = partial(_make_client, STREAMED_BY_SSE, seconds)
        yield sse_client(server.url, headers=dict(server.headers), httpx_client_factory=make_client)


@asynccontextmanager
async def _make_streamable(server: ServerAddress, seconds: float) -> AsyncIterator[Any]:
    async with (
        _make_client(STREAMED, seconds, dict(server.headers)) as http,
        streamable_http_client(
            server.url, http_client=http, max_sse_event_size=MAX_MESSAGE_LENGTH
        ) as streams,
    ):
        yield streams


def _make_client(
    streamed: tuple[str, ...],
    seconds: float,
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Makes an HTTP client with bounded replies, and without a read timeout, since calls have their
    own deadline.

    Args:
        streamed: the methods whose replies the package reads event by event, if the server says
            that they are events. It always reads replies to all other methods whole.
        seconds: the limit for a connection.
        headers, timeout, auth: given by the package; its timeout is not used.
    """

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        kind = response.headers.get("content-type", "").lower()
        is_stream = response.request.method in streamed and kind.startswith(EVENTS)
        encoding = response.headers.get("content-encoding", "")
        response.stream = BoundedBody(response.stream, encoding, is_stream=is_stream)

    client = httpx2.AsyncClient(
        headers=headers,
        auth=auth,
        timeout=httpx2.Timeout(seconds, read=None),
        event_hooks={"response": [bound]},
    )
    client.headers["Accept-Encoding"] = "identity"
    return client
