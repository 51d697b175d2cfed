"""Chat Completions: the path."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from server.dialects.chat.reply import ChatWriter, fold
from server.dialects.chat.request import ChatRequest
from server.http.disconnects import wait_for_client
from server.http.replies import answer
from server.http.serving import ANSWERS, find_service
from server.turns.active_request import begin

router = APIRouter()


@router.post("/v1/chat/completions", responses=ANSWERS)
@router.post("/chat/completions", responses=ANSWERS, include_in_schema=False)
async def complete_chat(body: ChatRequest, request: Request) -> Response:
    """Answers a conversation: with text, with calls of tools, or with both."""
    service = find_service(request)
    asked = await asyncio.to_thread(body.read, service)  # large schemas take their time
    begun = await wait_for_client(request, begin(service, asked))
    field = body.read_reasoning_field(service.settings.reasoning_field)
    writer = ChatWriter(begun, field, shows_usage=body.shows_usage or not body.stream)
    return await answer(request, begun, writer, None if body.stream else fold)
