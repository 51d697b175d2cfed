"""The reply to a request, streamed or whole, in every dialect.

A dialect only writes the chunks of a stream. A whole reply is folded from the same chunks, so the
two cannot differ.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence

from fastapi import Request
from fastapi.responses import Response

from grammars.schema.json_values import JsonObject
from server.errors import as_http_error, encode_openai_error, log_error
from server.http.disconnects import wait_for_client
from server.http.sse import COMMENT, EventStream, encode_event, encode_json
from server.turns.active_request import ActiveRequest, TurnEvent


class ReplyWriter:
    """Writes the chunks of one reply; each dialect has a subclass."""

    media_type: str = "text/event-stream"
    names_events: bool = False
    """Server-sent events have names: the `type` of their chunks."""
    ping: bytes = COMMENT
    """Sent if there is no chunk for a long time."""
    end: bytes = b""
    """The end of a stream, after its last chunk."""

    def foresee(self, events: Sequence[TurnEvent]) -> None:
        """Called before `open` with the first events of a stream that have come by then, for what
        its beginning tells of them. `take` gets them as well."""

    def open(self) -> Iterator[JsonObject]:
        return iter(())

    def take(self, number: int, event: TurnEvent) -> Iterator[JsonObject]:
        raise NotImplementedError

    def close(self) -> Iterator[JsonObject]:
        return iter(())

    def fail(self, error: Exception) -> Iterator[JsonObject]:
        """Yields the chunks for an error after the status was sent."""
        yield encode_openai_error(as_http_error(error))

    def before_sending(self, chunk: JsonObject) -> None:
        """Called before each chunk is sent."""

    def fold(self, chunks: Sequence[JsonObject]) -> JsonObject | list[JsonObject]:
        """Combines the chunks of a stream to the whole reply; fields that only whole replies have
        are added here."""
        raise NotImplementedError

    def encode(self, chunk: JsonObject) -> bytes:
        """Encodes a chunk: as a server-sent event, or in another format of streams."""
        if self.names_events:
            return encode_event(chunk, chunk["type"])
        return encode_event(chunk)


def answer_json(value: JsonObject) -> Response:
    """Returns a whole reply that may be long; call it off the event loop."""
    written = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return Response(written, media_type="application/json")


async def answer(
    request: Request, active: ActiveRequest, writer: ReplyWriter, *, is_streamed: bool
) -> Response:
    compiled = active.compiled
    if not is_streamed:
        chunks = await wait_for_client(request, _collect(active, writer), active.cancel)
        body = encode_json(writer.fold(chunks))
        return Response(body, media_type="application/json", headers=compiled.headers)
    settings = compiled.service.settings
    writer.foresee(await _wait_for_start(request, active, settings.ping_seconds))
    return EventStream(
        _stream(active, writer),
        idle_seconds=settings.idle_seconds,
        ping_seconds=settings.ping_seconds,
        ping=writer.ping,
        media_type=writer.media_type,
        headers=compiled.headers,
        cancel=active.cancel,
    )


async def _wait_for_start(
    request: Request, active: ActiveRequest, seconds: float
) -> Sequence[TurnEvent]:
    """Delays the status of a stream until there is something to send, or a ping is due; returns the
    events that have come. So an error before that gets its own status."""
    try:
        return await wait_for_client(request, active.wait(seconds))
    except BaseException:  # also when cancelled: no stream exists yet that would end the turns
        active.cancel()
        raise


async def _write(active: ActiveRequest, writer: ReplyWriter) -> AsyncIterator[list[JsonObject]]:
    yield _take_chunks(writer, writer.open())
    async for number, events in active.follow():
        chunks = list[JsonObject]()
        for event in events:
            chunks += _take_chunks(writer, writer.take(number, event))
        yield chunks
    yield _take_chunks(writer, writer.close())


def _take_chunks(writer: ReplyWriter, chunks: Iterable[JsonObject]) -> list[JsonObject]:
    taken = list[JsonObject]()
    for chunk in chunks:
        writer.before_sending(chunk)
        taken.append(chunk)
    return taken


async def _collect(active: ActiveRequest, writer: ReplyWriter) -> list[JsonObject]:
    collected = list[JsonObject]()
    async for chunks in _write(active, writer):
        collected += chunks
    return collected


async def _stream(active: ActiveRequest, writer: ReplyWriter) -> AsyncGenerator[bytes, None]:
    try:
        async for chunks in _write(active, writer):
            if chunks:  # one write for all
                yield b"".join([writer.encode(chunk) for chunk in chunks])
        if writer.end:
            yield writer.end
    except Exception as error:  # the status has been sent, so the stream reports the error
        chunks = _take_chunks(writer, [*writer.fail(error)])
        log_error(error)
        yield b"".join([writer.encode(chunk) for chunk in chunks])
