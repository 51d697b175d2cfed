"""The reply to a request, streamed or whole, in every dialect.

A dialect only writes the chunks of a stream. A whole reply is the fold of the same chunks, so that
the two cannot differ.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import Response

from grammars.long_json import write_pieces
from server.errors import as_http_error, encode_openai_error, log_error
from server.http.disconnects import wait_for_client
from server.http.sse import COMMENT, EventStream, encode_event, encode_json
from server.turns.active_request import TurnEvent, TurnEvents
from server.turns.compiled_request import CompiledRequest

Json = dict[str, Any]
LIST_PIECE = 1_000  # items of a long list that are made and written at once


class Underway(Protocol):
    """A request under way: one turn or more (`ActiveRequest`, `ActiveRun`)."""

    @property
    def compiled(self) -> CompiledRequest:
        """The request, with prompt and grammar."""
        ...

    async def wait(self, seconds: float) -> None:
        """Waits until there is an event, at most so long."""
        ...

    def follow(self) -> AsyncIterator[TurnEvents]:
        """The events, those of a choice together that are there."""
        ...

    def cancel(self) -> None:
        """Ends it; does nothing if it is over."""
        ...


class ReplyWriter:
    """Writes the chunks of one reply; a dialect derives from it."""

    media_type: str = "text/event-stream"
    names_events: bool = False
    """Server-sent events have names: the `type` of their chunks."""
    ping: bytes = COMMENT
    """Sent where there is no chunk for long."""
    end: bytes = b""
    """The end of a stream, behind its last chunk."""

    def open(self) -> Iterator[Json]:
        """The first chunks."""
        return iter(())

    def take(self, number: int, event: TurnEvent) -> Iterator[Json]:
        """The chunks of an event, which is one of the choice of this number."""
        raise NotImplementedError

    def close(self) -> Iterator[Json]:
        """The last chunks."""
        return iter(())

    def fail(self, error: Exception) -> Iterator[Json]:
        """The chunks of a stream that fails after its status was sent."""
        yield encode_openai_error(as_http_error(error))

    def before_sending(self, chunk: Json) -> None:
        """Called in front of each chunk that goes out."""

    def fold(self, chunks: Sequence[Json]) -> Json | list[Json]:
        """The whole reply that the chunks of a stream add up to."""
        raise NotImplementedError

    def encode(self, chunk: Json) -> bytes:
        """A chunk as a server-sent event, or what else the stream is made of."""
        if self.names_events:
            return encode_event(chunk, chunk["type"])
        return encode_event(chunk)


def answer_json(value: Json) -> Response:
    """A whole reply that may be long; to be made beside the event loop."""
    pieces = [piece.encode("utf-8", "replace") for piece in write_pieces(value)]
    return Response(b"".join(pieces), media_type="application/json")


def answer_list(name: str, items: Iterator[Any]) -> Response:
    """A whole reply of one list, which may be long: its items are made as they are written, so that
    a million of them do not lie in memory, nor keep other threads waiting when they are freed.

    Args:
        name: of the list, in letters.
        items: of it, each of which is short.
    """
    pieces = list[bytes]()
    while batch := [*islice(items, LIST_PIECE)]:
        text = json.dumps(batch, ensure_ascii=False)
        pieces.append(text[1:-1].encode("utf-8", "replace"))
    written = b'{"%b": [%b]}' % (name.encode(), b", ".join(pieces))
    return Response(written, media_type="application/json")


async def answer(
    request: Request, active: Underway, writer: ReplyWriter, *, is_streamed: bool
) -> Response:
    """The reply to a request under way.

    Raises:
        Error: the turn has failed before anything was sent.
        HttpError: the client has disconnected.
    """
    compiled = active.compiled
    if not is_streamed:
        chunks = await wait_for_client(request, _collect(active, writer), active.cancel)
        body = encode_json(writer.fold(chunks))
        return Response(body, media_type="application/json", headers=compiled.headers)
    settings = compiled.service.settings
    await _wait_for_start(request, active, settings.ping_seconds)
    return EventStream(
        _stream(active, writer),
        idle_seconds=settings.idle_seconds,
        ping_seconds=settings.ping_seconds,
        ping=writer.ping,
        media_type=writer.media_type,
        headers=compiled.headers,
        cancel=active.cancel,
    )


async def _wait_for_start(request: Request, active: Underway, seconds: float) -> None:
    """Waits with the status of a stream until there is something to stream, or until a ping is due:
    what is refused until then is refused with its own status."""
    try:
        await wait_for_client(request, active.wait(seconds))
    except BaseException:  # cancelled, too: there is no stream yet that would end the turns
        active.cancel()
        raise


async def _write(active: Underway, writer: ReplyWriter) -> AsyncIterator[list[Json]]:
    """The chunks of a reply, those together that are there."""
    yield _take_chunks(writer, writer.open())
    async for number, events in active.follow():
        chunks = list[Json]()
        for event in events:
            chunks += _take_chunks(writer, writer.take(number, event))
        yield chunks
    yield _take_chunks(writer, writer.close())


def _take_chunks(writer: ReplyWriter, chunks: Iterable[Json]) -> list[Json]:
    taken = list[Json]()
    for chunk in chunks:
        writer.before_sending(chunk)
        taken.append(chunk)
    return taken


async def _collect(active: Underway, writer: ReplyWriter) -> list[Json]:
    collected = list[Json]()
    async for chunks in _write(active, writer):
        collected += chunks
    return collected


async def _stream(active: Underway, writer: ReplyWriter) -> AsyncGenerator[bytes, None]:
    try:
        async for chunks in _write(active, writer):
            if chunks:  # one write, and not one for each
                yield b"".join([writer.encode(chunk) for chunk in chunks])
        if writer.end:
            yield writer.end
    except Exception as error:  # the status is sent already: the stream says it
        chunks = _take_chunks(writer, [*writer.fail(error)])
        log_error(error)
        yield b"".join([writer.encode(chunk) for chunk in chunks])
