"""Messages: the paths."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from server.dialects.messages.reply import PING, MessagesWriter, fold
from server.dialects.messages.request import CountRequest, MessagesJob, MessagesRequest
from server.errors import Dialect, as_http_error
from server.http.disconnects import wait_for_client, wait_for_start
from server.http.serving import ANSWERS, find_service, note_error
from server.http.sse import EventStream, collect, encode_event, keep_alive
from server.turns.active_request import Begun, begin
from server.turns.turn_request import compile_turn

router = APIRouter()
Json = dict[str, Any]
ALIVE = encode_event(PING, "ping")


@router.post("/v1/messages", responses=ANSWERS)
@router.post("/messages", responses=ANSWERS, include_in_schema=False)
async def create_message(body: MessagesRequest, request: Request) -> Response:
    """Answers a conversation in Anthropic's form: with blocks of text, and of calls of tools."""
    service = find_service(request)
    job = await asyncio.to_thread(body.read, service)
    with job.locating():
        begun = await wait_for_client(request, begin(service, job.asked))
        events = write(begun, job)
        if body.stream:
            await wait_for_start(request, begun)
            parts = keep_alive(_encode(events, job), service.settings.ping_seconds, ALIVE)
            return EventStream(parts, service.settings.idle_seconds, begun.headers, begun.cancel)
        message = fold(await wait_for_client(request, collect(events), begun.cancel))
    return JSONResponse(message, headers=begun.headers)


@router.post("/v1/messages/count_tokens", responses=ANSWERS)
@router.post("/messages/count_tokens", responses=ANSWERS, include_in_schema=False)
async def count_tokens(body: CountRequest, request: Request) -> Response:
    """How many tokens the prompt of a request has: as many as are then computed."""
    service = find_service(request)
    job = await asyncio.to_thread(body.read, service)
    with job.locating():
        compiling = compile_turn(service, job.asked)
        turn, thinking = await wait_for_client(request, compiling)
    headers = Begun(job.asked, turn, thinking, (), service).headers
    return JSONResponse({"input_tokens": len(turn.tokens)}, headers=headers)


async def write(begun: Begun, job: MessagesJob) -> AsyncIterator[Json]:
    """The events of a reply."""
    pinned = job.count_pinned(begun.turn)
    writer = MessagesWriter(begun, pinned, shows_thinking=job.shows_thinking)
    for event in writer.open():
        yield event
    async for _, told in begun.follow():
        for event in writer.take(told):
            yield event


async def _encode(events: AsyncIterator[Json], job: MessagesJob) -> AsyncIterator[bytes]:
    try:
        with job.locating():
            async for event in events:
                yield encode_event(event, event["type"])
    except Exception as error:  # the status is sent already: the stream says it
        note_error(error)
        yield encode_event(as_http_error(error).to_json(Dialect.ANTHROPIC), "error")
