"""Server-sent events: sent as they arrive, with pings in between; the stream ends if the client
stops reading."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from fastapi.responses import StreamingResponse
from pydantic_core import PydanticSerializationError, to_json
from starlette.types import Message, Receive, Scope, Send

from constrained.errors import DeadlineError

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # the latter is nginx's
COMMENT = b": alive\n\n"  # keeps proxies from closing the connection; clients skip comments
DONE = b"data: [DONE]\n\n"
LOG = logging.getLogger("constrained.server")


def encode_event(data: Mapping[str, Any], name: str = "") -> bytes:
    """Encodes an event. JSON has no line breaks, so one `data` line is enough."""
    lines = b"data: %b\n\n" % encode_json(data)
    if name:
        lines = b"event: %b\n%b" % (name.encode(), lines)
    return lines


def encode_json(data: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Encodes JSON in UTF-8; lone surrogates, which UTF-8 cannot represent, become question
    marks."""
    try:
        return to_json(data)  # takes a quarter of the time of json
    except PydanticSerializationError:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


class EventStream(StreamingResponse):
    """A stream of events, with pings while there are none.

    Args:
        idle_seconds: a client that reads nothing for this time is cut off.
        ping_seconds: a ping is sent if nothing was sent for this time.
        cancel: called at the end, even if nothing was sent.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        idle_seconds: float,
        ping_seconds: float,
        ping: bytes = COMMENT,
        media_type: str,
        headers: Mapping[str, str],
        cancel: Callable[[], None],
    ):
        super().__init__(events, headers={**HEADERS, **headers}, media_type=media_type)
        self._events = events
        self._idle_seconds = idle_seconds
        self._ping_seconds = ping_seconds
        self._ping = ping
        self._cancel = cancel
        self._is_sending = False
        self._changed_at = 0.0  # when the last send began or ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        clock = asyncio.get_running_loop().time

        # Sending sets two fields. A timer per event would take longer than everything else.
        async def send_noted(message: Message) -> None:
            self._is_sending = True
            self._changed_at = clock()
            await send(message)
            self._is_sending = False
            self._changed_at = clock()

        watch: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(None) as limit:
                watch = asyncio.create_task(self._watch(send, limit))
                await super().__call__(scope, receive, send_noted)
        except DeadlineError:  # the request's deadline: also a TimeoutError, but not from sending
            raise
        except TimeoutError:  # uvicorn closes the connection without the end of the reply
            LOG.warning("a client read nothing from its stream for %g seconds", self._idle_seconds)
        finally:
            if watch is not None:
                watch.cancel()
            self._cancel()
            await self._events.aclose()

    async def _watch(self, send: Send, limit: asyncio.Timeout) -> None:
        """Sends pings, and ends the stream if the client reads nothing."""
        clock = asyncio.get_running_loop().time
        rest = self._changed_at = clock()
        while True:
            await asyncio.sleep(min(rest, self._idle_seconds, self._ping_seconds))
            bound = self._idle_seconds if self._is_sending else self._ping_seconds
            rest = self._changed_at + bound - clock()
            if rest > 0:
                continue
            if self._is_sending:
                limit.reschedule(clock())
                return
            rest = self._ping_seconds
            self._changed_at = clock()
            try:
                async with asyncio.timeout(self._idle_seconds):
                    await send(
                        {"type": "http.response.body", "body": self._ping, "more_body": True}
                    )
            except TimeoutError:
                limit.reschedule(clock())
                return
