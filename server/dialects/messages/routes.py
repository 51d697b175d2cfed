"""Messages: the paths."""

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from server.dialects.common.reading import read_request
from server.dialects.common.replies import answer
from server.dialects.messages.reply import MessagesWriter
from server.dialects.messages.request import CountRequest, MessagesRequest
from server.http.disconnects import wait_for_client
from server.http.openapi import STREAMED, ApiRouter
from server.turns.active_request import start_request
from server.turns.compiled_request import compile_request

router = ApiRouter()
GREETING = {"model": "demo", "messages": [{"role": "user", "content": "Hello!"}]}
LIMITED_GREETING = {**GREETING, "max_tokens": 30}


@router.post_json("/v1/messages", MessagesRequest, LIMITED_GREETING, responses=STREAMED)
async def create_message(request: Request) -> Response:
    """Answers a conversation in Anthropic's form: with blocks of text, and of calls of tools."""
    service, body, decoded = await read_request(request, MessagesRequest, MessagesRequest.read)
    with decoded.locating_errors():
        starting = start_request(service, decoded.turn_request)
        active = await wait_for_client(request, starting)
        writer = MessagesWriter(active.compiled, decoded)
        return await answer(request, active, writer, is_streamed=body.stream is True)


@router.post_json("/v1/messages/count_tokens", CountRequest, GREETING)
async def count_tokens(request: Request) -> Response:
    """How many tokens the prompt of a request has: as many as are then computed."""
    service, _, decoded = await read_request(request, CountRequest, CountRequest.read)
    with decoded.locating_errors():
        compiling = compile_request(service, decoded.turn_request)
        compiled = await wait_for_client(request, compiling)
    return JSONResponse({"input_tokens": len(compiled.turn.tokens)}, headers=compiled.headers)
