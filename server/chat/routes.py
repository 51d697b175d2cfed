"""Chat Completions: the path."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from server.asking import Begun, begin
from server.chat.reply import ChatWriter, fold
from server.chat.request import ChatRequest
from server.errors import as_http_error
from server.serving import ANSWERS, find_service, note_error
from server.streaming import DONE, EventStream, encode_event, keep_alive
from server.waiting import wait_for_client

router = APIRouter()
Json = dict[str, Any]


@router.post("/v1/chat/completions", responses=ANSWERS)
@router.post("/chat/completions", responses=ANSWERS, include_in_schema=False)
async def complete_chat(body: ChatRequest, request: Request) -> Response:
    """Answers a conversation: with text, with calls of tools, or with both."""
    service = find_service(request)
    asked = await asyncio.to_thread(body.read, service)  # large schemas take their time
    begun = await wait_for_client(request, begin(service, asked))
    field = body.read_reasoning_field(service.settings.reasoning_field)
    if body.stream:
        writer = ChatWriter(begun, field, shows_usage=body.shows_usage)
        events = keep_alive(_encode(write(begun, writer)), service.settings.ping_seconds)
        return EventStream(events, service.settings.idle_seconds, begun.headers, begun.cancel)
    work = _collect(write(begun, ChatWriter(begun, field)))
    chunks = await wait_for_client(request, work, begun.cancel)
    return JSONResponse(fold(chunks), headers=begun.headers)


async def write(begun: Begun, writer: ChatWriter) -> AsyncIterator[Json]:
    """The chunks of a reply."""
    for chunk in writer.open():
        yield chunk
    async for number, told in begun.follow():
        for chunk in writer.take(number, told):
            yield chunk
    for chunk in writer.close():
        yield chunk


async def _collect(chunks: AsyncIterator[Json]) -> list[Json]:
    return [chunk async for chunk in chunks]


async def _encode(chunks: AsyncIterator[Json]) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield encode_event(chunk)
        yield DONE
    except Exception as error:  # the status is sent already: the stream says it
        note_error(error)
        yield encode_event(as_http_error(error).to_json())
