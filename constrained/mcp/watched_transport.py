"""A transport that reports its end at once, not only when the next request fails."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any


@asynccontextmanager
async def notice_end(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], on_end: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Wraps a transport so that its end is noticed.

    Args:
        transport: streams to read from and to write to, from the package `mcp`.
        on_end: called when the stream has ended.
    """
    async with transport as (read, write):
        yield _WatchedStream(read, on_end), write


class _WatchedStream:
    """A stream to read from, with the methods that the package uses."""

    def __init__(self, stream: Any, on_end: Callable[[], None]):
        self._stream = stream
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> "_WatchedStream":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stream.__aexit__(*exception)

    def __aiter__(self) -> "_WatchedStream":
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:  # the stream has ended, or its reader is cancelled
            self._on_end()
            raise
