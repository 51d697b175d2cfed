"""Server-sent events: sent as they come, with pings while there is nothing to send, and ended when
nobody reads them."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fastapi.responses import StreamingResponse
from pydantic_core import PydanticSerializationError, to_json
from starlette.types import Message, Receive, Scope, Send

from constrained.errors import DeadlineError

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # the latter is nginx's
COMMENT = b": alive\n\n"  # clients skip comments; it keeps proxies from closing the connection
DONE = b"data: [DONE]\n\n"
LOG = logging.getLogger("constrained.server")
BUFFERED = 64  # events that are made while earlier ones are sent


def encode_event(data: Mapping[str, Any], name: str = "") -> bytes:
    """An event. JSON has no line breaks of its own, so one `data` line is enough."""
    lines = b"data: %b\n\n" % encode_json(data)
    if name:
        lines = b"event: %b\n%b" % (name.encode(), lines)
    return lines


def encode_json(data: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """JSON in UTF-8; lone surrogates, which UTF-8 cannot hold, become question marks."""
    try:
        return to_json(data)  # in a quarter of the time that json takes
    except PydanticSerializationError:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


async def keep_alive(
    events: AsyncGenerator[bytes, None], seconds: float, ping: bytes = COMMENT
) -> AsyncGenerator[bytes, None]:
    """The encoded events; where none comes for so many seconds, a ping in between."""
    queue: asyncio.Queue[bytes | BaseException] = asyncio.Queue(BUFFERED)

    async def read() -> None:
        try:
            async for event in events:
                await queue.put(event)
            await queue.put(StopAsyncIteration())
        except Exception as error:  # raised by whoever reads the queue
            await queue.put(error)

    reading = asyncio.create_task(read())
    try:
        while True:
            try:
                async with asyncio.timeout(seconds):
                    event = await queue.get()
            except TimeoutError:
                yield ping
                continue
            if isinstance(event, StopAsyncIteration):
                return
            if isinstance(event, BaseException):
                raise event
            # What was made meanwhile goes out with it: one write, and not one for each.
            yield b"".join([event, *_drain(queue)])
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await events.aclose()


def _drain(queue: asyncio.Queue[bytes | BaseException]) -> Iterator[bytes]:
    """The events that are there; what ends the stream stays in the queue."""
    while not queue.empty():
        event = queue.get_nowait()
        if isinstance(event, BaseException):
            queue.put_nowait(event)  # it is the last one
            return
        yield event


class EventStream(StreamingResponse):
    """A stream of events; a client that takes nothing for `idle_seconds` is cut off.

    Args:
        events: encoded.
        idle_seconds: see above.
        media_type: of the stream.
        headers: in addition to those of every stream.
        cancel: called in the end, also where nothing of the stream was read.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        idle_seconds: float,
        media_type: str,
        headers: Mapping[str, str],
        cancel: Callable[[], None],
    ):
        super().__init__(events, headers={**HEADERS, **headers}, media_type=media_type)
        self._events = events
        self._idle_seconds = idle_seconds
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_soon(message: Message) -> None:
            async with asyncio.timeout(self._idle_seconds):
                await send(message)

        try:
            await super().__call__(scope, receive, send_soon)
        except DeadlineError:  # of the request: a TimeoutError, too, but not of the sending
            raise
        except TimeoutError:  # uvicorn closes the connection: the end of the reply is missing
            LOG.warning("a client took nothing of its stream for %g seconds", self._idle_seconds)
        finally:
            self._cancel()
            await self._events.aclose()
