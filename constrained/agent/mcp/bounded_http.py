"""Limits the length of replies of MCP servers over HTTP: the package `mcp` reads a whole body."""

from collections.abc import AsyncIterator, Callable, Mapping

import httpx2

MAX_MESSAGE_LENGTH = 32 * 1024 * 1024
"""The maximum number of bytes of a server's message; images and files are single messages, too."""
EVENTS = "text/event-stream"
PLAIN = ("", "identity")


class RefusedBodyError(httpx2.StreamError):
    """A body is refused; the package answers the request with this message."""


class ForeignEndpointError(httpx2.SSEError):
    """A server names an address on another host. It is the only kind of stream error that the
    package passes on."""


class BoundedBody(httpx2.AsyncByteStream):
    """A body that fails if it is longer than a message may be, or at once if it is compressed: we
    do not request compression, and a few compressed bytes may become gigabytes of text.

    Args:
        body: the arriving bytes.
        encoding: its `Content-Encoding`.
        is_stream: the body may have any length, because it is read event by event and each event
            has a limit.
        check: called with each piece first; None: there is none.
    """

    def __init__(
        self,
        body: httpx2.AsyncByteStream,
        encoding: str,
        *,
        is_stream: bool,
        check: Callable[[bytes], None] | None,
    ):
        self._body = body
        self._check = check
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
            if self._check is not None:
                self._check(piece)
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def make_bounded_client(
    headers: Mapping[str, str],
    timeout: httpx2.Timeout,
    auth: httpx2.Auth | None,
    *,
    streamed: tuple[str, ...],
    check_stream: Callable[[], Callable[[bytes], None]] | None,
) -> httpx2.AsyncClient:
    """Makes an HTTP client with bounded replies.

    Args:
        headers: sent with each request.
        timeout: of connections and reads.
        auth: from the package `mcp`.
        streamed: the methods whose replies the package reads event by event, if the server says
            that they are events. It always reads replies to all other methods whole.
        check_stream: makes the function that is called with each piece of a stream first; None:
            there is none.
    """

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        kind = response.headers.get("content-type", "").lower()
        is_stream = response.request.method in streamed and kind.startswith(EVENTS)
        encoding = response.headers.get("content-encoding", "")
        check = check_stream() if is_stream and check_stream is not None else None
        body = BoundedBody(response.stream, encoding, is_stream=is_stream, check=check)
        response.stream = body

    client = httpx2.AsyncClient(
        headers=headers, auth=auth, timeout=timeout, event_hooks={"response": [bound]}
    )
    client.headers["Accept-Encoding"] = "identity"
    return client
