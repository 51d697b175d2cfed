"""Replies that are made of chunks, whole or as they come: Chat Completions and Completions."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from server.errors import as_http_error
from server.http.disconnects import wait_for_client, wait_for_start
from server.http.serving import note_error
from server.http.sse import DONE, EventStream, collect, encode_event, keep_alive
from server.turns.active_request import Begun, Told

Json = dict[str, Any]


class Writer(Protocol):
    """Writes the chunks of one reply."""

    def open(self) -> Iterator[Json]:
        """The first chunks."""
        ...

    def take(self, number: int, told: Told) -> Iterator[Json]:
        """The chunks that an event of a choice comes to."""
        ...

    def close(self) -> Iterator[Json]:
        """The last chunks."""
        ...


async def answer(
    request: Request, begun: Begun, writer: Writer, fold: Callable[[list[Json]], Json] | None
) -> Response:
    """The reply.

    Args:
        request: who asks.
        begun: what is asked, under way.
        writer: writes its chunks.
        fold: makes the whole reply of them; None: they are sent as they come.
    """
    chunks, settings = _write(begun, writer), begun.service.settings
    if fold is None:
        await wait_for_start(request, begun)
        events = keep_alive(_encode(chunks), settings.ping_seconds)
        return EventStream(events, settings.idle_seconds, begun.headers, begun.cancel)
    collected = await wait_for_client(request, collect(chunks), begun.cancel)
    return JSONResponse(fold(collected), headers=begun.headers)


async def _write(begun: Begun, writer: Writer) -> AsyncIterator[Json]:
    for chunk in writer.open():
        yield chunk
    async for number, told in begun.follow():
        for chunk in writer.take(number, told):
            yield chunk
    for chunk in writer.close():
        yield chunk


async def _encode(chunks: AsyncIterator[Json]) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield encode_event(chunk)
        yield DONE
    except Exception as error:  # the status is sent already: the stream says it
        note_error(error)
        yield encode_event(as_http_error(error).to_json())
