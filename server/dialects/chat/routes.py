"""Chat Completions: the path, and its other name without `/v1`."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from server.dialects.chat.reply import ChatWriter
from server.dialects.chat.request import ChatRequest
from server.http.body import describe_body
from server.http.disconnects import wait_for_client
from server.http.reading import read_request
from server.http.replies import answer
from server.http.serving import ERRORS, find_service
from server.turns.active_request import start

router = APIRouter()


@router.post("/v1/chat/completions", responses=ERRORS, openapi_extra=describe_body(ChatRequest))
@router.post("/chat/completions", responses=ERRORS, include_in_schema=False)
async def complete_chat(request: Request) -> Response:
    """Answers a conversation: with text, with calls of tools, or with both."""
    service = find_service(request)
    body, turn_request = await read_request(request, service, ChatRequest, ChatRequest.read)
    active = await wait_for_client(request, start(service, turn_request))
    writer = ChatWriter(
        active.compiled,
        body.read_reasoning_field(service.settings.reasoning_field),
        shows_usage=body.shows_usage or not body.stream,
    )
    return await answer(request, active, writer, is_streamed=body.stream is True)
