"""Chat Completions: the paths, and their other names without `/v1`."""

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from server.dialects.chat.reply import ChatWriter
from server.dialects.chat.request import REASONING_PLACES, ChatRequest
from server.dialects.common.reading import read_request
from server.dialects.common.replies import answer
from server.http.disconnects import wait_for_client
from server.http.openapi import STREAMED, ApiRouter
from server.turns.active_request import start_request
from server.turns.compiled_request import compile_request

router = ApiRouter()
GREETING = {
    "model": "demo",
    "messages": [{"role": "user", "content": "Hello!"}],
    "max_tokens": 30,
}


@router.post_json("/v1/chat/completions", ChatRequest, GREETING, responses=STREAMED)
async def complete_chat(request: Request) -> Response:
    """Answers a conversation with text, with calls of tools, or with both."""
    service, body, turn_request = await read_request(request, ChatRequest, ChatRequest.read)
    active = await wait_for_client(request, start_request(service, turn_request))
    writer = ChatWriter(
        active.compiled,
        REASONING_PLACES.get(body.reasoning_format or "auto", service.settings.reasoning_field),
        shows_usage=body.shows_usage or not body.stream,
    )
    return await answer(request, active, writer, is_streamed=body.stream is True)


@router.post_json("/v1/chat/completions/input_tokens", ChatRequest, GREETING)
async def count_tokens(request: Request) -> Response:
    """Counts the tokens of a request's prompt; generates nothing."""
    service, _, turn_request = await read_request(request, ChatRequest, ChatRequest.read)
    compiled = await wait_for_client(request, compile_request(service, turn_request))
    count = {"object": "response.input_tokens", "input_tokens": len(compiled.turn.tokens)}
    return JSONResponse(count, headers=compiled.headers)
