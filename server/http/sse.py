"""Server-sent events: told as they come, alive while there is nothing to say, over when nobody
reads them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

T = TypeVar("T")
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
COMMENT = b": alive\n\n"
DONE = b"data: [DONE]\n\n"
AHEAD = 64  # events that are made while earlier ones are sent


def encode_event(data: Mapping[str, Any], name: str = "") -> bytes:
    """An event; lines that JSON breaks nowhere are one line."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


async def collect(events: AsyncIterator[T]) -> list[T]:
    """All events of a reply that is not streamed."""
    return [event async for event in events]


async def keep_alive(
    parts: AsyncIterator[bytes], seconds: float, ping: bytes = COMMENT
) -> AsyncIterator[bytes]:
    """The parts, and between them, where none comes for so long, a ping."""
    queue: asyncio.Queue[bytes | BaseException] = asyncio.Queue(AHEAD)

    async def read() -> None:
        try:
            async for part in parts:
                await queue.put(part)
            await queue.put(StopAsyncIteration())
        except Exception as error:
            await queue.put(error)

    reading = asyncio.create_task(read())
    try:
        while True:
            try:
                async with asyncio.timeout(seconds):
                    part = await queue.get()
            except TimeoutError:
                yield ping
                continue
            if isinstance(part, StopAsyncIteration):
                return
            if isinstance(part, BaseException):
                raise part
            yield part
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await _close(parts)


async def _close(parts: AsyncIterator[Any]) -> None:
    if (close := getattr(parts, "aclose", None)) is not None:
        await close()


class EventStream(StreamingResponse):
    """A stream of events; a client that takes nothing for `idle_seconds` is cut off.

    Args:
        parts: encoded events.
        idle_seconds: see above.
        cancel: is called in the end, also where nothing of the stream was read.
        headers: beside those of every stream.
    """

    def __init__(
        self,
        parts: AsyncIterator[bytes],
        idle_seconds: float,
        headers: Mapping[str, str],
        cancel: Callable[[], None] = lambda: None,
    ):
        super().__init__(parts, headers={**HEADERS, **headers}, media_type="text/event-stream")
        self._parts = parts
        self._idle_seconds = idle_seconds
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_soon(message: Message) -> None:
            async with asyncio.timeout(self._idle_seconds):
                await send(message)

        try:
            await super().__call__(scope, receive, send_soon)
        except TimeoutError:  # the connection is closed with the end of the reply missing
            raise ConnectionError("a client does not take its stream") from None
        finally:
            self._cancel()
            await _close(self._parts)
