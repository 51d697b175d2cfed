"""Replies of MCP servers over HTTP, of bounded length: the package `mcp` reads a body whole."""

from collections.abc import AsyncIterator, Mapping

import httpx2

LONGEST_MESSAGE = 32 * 1024 * 1024
"""Bytes of a message of a server; images and files come in one, too."""
EVENTS = "text/event-stream"
PLAIN = ("", "identity")


class RefusedBodyError(httpx2.StreamError):
    """A body that is not read; the package answers the request with the message."""


class BoundedBody(httpx2.AsyncByteStream):
    """A body that fails once it is longer than a message may be, or at once where it is compressed:
    nobody has asked for that, and a few bytes of it may be gigabytes of text.

    Args:
        body: as it arrives.
        encoding: its `Content-Encoding`.
        is_stream: it may have any length: it is read event by event, and each has a bound.
    """

    def __init__(self, body: httpx2.AsyncByteStream, encoding: str, *, is_stream: bool):
        self._body = body
        self._encoding = encoding.strip()
        self._most = None if is_stream else LONGEST_MESSAGE

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding.lower() not in PLAIN:
            raise RefusedBodyError(f"the body is compressed ({self._encoding[:100]}), unasked")
        length = 0
        async for piece in self._body:
            length += len(piece)
            if self._most is not None and length > self._most:
                raise RefusedBodyError(f"the body is longer than {self._most:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def make_bounded_client(
    headers: Mapping[str, str],
    timeout: httpx2.Timeout,
    auth: httpx2.Auth | None = None,
    *,
    streamed: tuple[str, ...],
) -> httpx2.AsyncClient:
    """A client of HTTP whose replies are bounded.

    Args:
        headers: sent with each request.
        timeout: of connections and reads.
        auth: of the package `mcp`.
        streamed: methods whose replies the package reads event by event, where the server says
            that they are events. It reads those to all other methods whole, whatever they say.
    """

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        kind = response.headers.get("content-type", "").lower()
        is_stream = response.request.method in streamed and kind.startswith(EVENTS)
        encoding = response.headers.get("content-encoding", "")
        response.stream = BoundedBody(response.stream, encoding, is_stream=is_stream)

    client = httpx2.AsyncClient(
        headers=headers, auth=auth, timeout=timeout, event_hooks={"response": [bound]}
    )
    client.headers["Accept-Encoding"] = "identity"
    return client
