"""Responses: the paths, of which all but the first are about responses that are kept."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from server.dialects.chat.reply_types import InputTokens
from server.dialects.responses.items import pack_request, read_input, write_messages
from server.dialects.responses.reply import ResponseWriter
from server.dialects.responses.reply_types import (
    DeletedResponse,
    ItemPage,
    ModelResponse,
    StreamedEvent,
)
from server.dialects.responses.request import ResponsesRequest, locating_errors
from server.dialects.responses.store import ResponseStore, StoredResponse
from server.errors import HttpError
from server.http.disconnects import wait_for_client
from server.http.openapi import ERRORS, describe_body, describe_errors, describe_reply
from server.http.reading import read_request
from server.http.replies import answer
from server.http.serving import find_key_owner
from server.turns.active_request import ActiveRequest, start
from server.turns.compiled_request import compile_request
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

router = APIRouter()
Json = dict[str, Any]
KEPT = describe_errors(400, 401, 404, 503)
EXAMPLE = {"model": "demo", "input": "Hello!", "max_output_tokens": 30}
HIDDEN: dict[str, Any] = {"response_model": None, "include_in_schema": False}


@dataclass(frozen=True)
class _AskedRequest:
    """A request that was read.

    Args:
        turn_request: what it asks.
        described: what the response repeats of it.
        context: the conversation that it answers.
        packed: both, as they are kept.
    """

    turn_request: TurnRequest
    described: Json
    context: tuple[Json, ...]
    packed: bytes


@router.post(
    "/v1/responses",
    responses=describe_reply(ModelResponse, StreamedEvent) | ERRORS,
    openapi_extra=describe_body(ResponsesRequest, EXAMPLE),
)
@router.post("/responses", **HIDDEN)
async def create_response(request: Request) -> Response:
    """Answers a conversation: with text, with calls of tools, or with both."""
    store = find_store(request)
    owner = find_key_owner(request)
    read = partial(_read, store=store, owner=owner)
    service, body, asked = await read_request(request, ResponsesRequest, read)
    active = await wait_for_client(request, _start(service, asked.turn_request))
    keep = None
    if body.store is not False:
        keep = partial(
            store.keep,
            context=asked.context,
            owner=owner,
            repeated=frozenset(asked.described),
            request=asked.packed,
        )
    writer = ResponseWriter(
        active.compiled,
        asked.described,
        keep=keep,
        shows_logprobs=body.shows_logprobs,
        seals=body.seals,
    )
    return await answer(request, active, writer, is_streamed=body.stream is True)


@router.post(
    "/v1/responses/input_tokens",
    responses=describe_reply(InputTokens) | ERRORS,
    openapi_extra=describe_body(ResponsesRequest, EXAMPLE),
)
@router.post("/responses/input_tokens", **HIDDEN)
async def count_tokens(request: Request) -> Response:
    """How many tokens the prompt of a request has; nothing is generated."""
    read = partial(_read, store=find_store(request), owner=find_key_owner(request))
    service, _, asked = await read_request(request, ResponsesRequest, read)
    with locating_errors():
        compiling = compile_request(service, asked.turn_request)
        compiled = await wait_for_client(request, compiling)
    count = {"object": "response.input_tokens", "input_tokens": len(compiled.turn.tokens)}
    return JSONResponse(count, headers=compiled.headers)


def _read(
    body: ResponsesRequest, service: Service, *, store: ResponseStore, owner: str
) -> _AskedRequest:
    """Reads a request and the conversation that it goes on with.

    Raises:
        HttpError, Error: something in the request cannot be; says where.
    """
    earlier = _find_earlier(body, store, owner)
    context = (*earlier, *read_input(body.input, partial(store.find_items, owner)))
    turn_request = body.read(service, write_messages(context, body.instructions), context)
    described = body.describe(turn_request)
    packed = pack_request([described, context])
    return _AskedRequest(turn_request, described, context, packed=packed)


async def _start(service: Service, request: TurnRequest) -> ActiveRequest:
    with locating_errors():
        return await start(service, request)


def _find_earlier(body: ResponsesRequest, store: ResponseStore, owner: str) -> tuple[Json, ...]:
    """The conversation that the request goes on from.

    Raises:
        HttpError: it is not kept, or its last turn has failed.
    """
    id = body.previous_response_id
    if id is None:
        return ()
    where = "/previous_response_id"
    stored = store.get(owner, id)
    if stored is None:
        message = f"there is no response {id!r} to continue from"
        raise HttpError(400, message, "previous_response_not_found", where=where)
    if stored.response["status"] == "failed":
        raise HttpError(400, f"the response {id!r} has failed", "invalid_value", where=where)
    return stored.conversation


def find_store(request: Request) -> ResponseStore:
    """The responses that this server keeps."""
    state = request.app.state
    if not hasattr(state, "responses"):
        state.responses = ResponseStore(state.settings.max_stored, state.settings.max_stored_bytes)
    return state.responses


def _find(id: str, request: Request) -> StoredResponse:
    stored = find_store(request).get(find_key_owner(request), id)
    if stored is None:
        raise HttpError(404, f"there is no response {id!r}", "not_found")
    return stored


@router.get(
    "/v1/responses/{id}", response_model=None, responses=describe_reply(ModelResponse) | KEPT
)
@router.get("/responses/{id}", **HIDDEN)
async def show_response(id: str, request: Request, stream: bool = False) -> Json:
    """A response that is kept."""
    if stream:
        message = "a response is streamed only while it is made: leave stream out"
        raise HttpError(400, message, "unsupported_field", where="/stream")
    return _find(id, request).response


@router.delete("/v1/responses/{id}", responses=KEPT)
@router.delete("/responses/{id}", **HIDDEN)
async def delete_response(id: str, request: Request) -> DeletedResponse:
    """Forgets a response."""
    if not find_store(request).delete(find_key_owner(request), id):
        raise HttpError(404, f"there is no response {id!r}", "not_found")
    return {"id": id, "object": "response", "deleted": True}


@router.post("/v1/responses/{id}/cancel", response_model=None, responses=KEPT)
@router.post("/responses/{id}/cancel", **HIDDEN)
async def cancel_response(id: str, request: Request) -> Json:
    """Refuses: a response that has an id is not running; closing its stream ends one that is."""
    status = _find(id, request).response["status"]
    message = f"the response is {status}: close the stream of one that is running to cancel it"
    raise HttpError(400, message, "invalid_value")


@router.get(
    "/v1/responses/{id}/input_items",
    response_model=None,
    responses=describe_reply(ItemPage) | KEPT,
)
@router.get("/responses/{id}/input_items", **HIDDEN)
async def list_input_items(
    id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str = "",
) -> Json:
    """The items that a response answered, those included that earlier responses brought."""
    items = list(_find(id, request).context)
    if order == "desc":
        items.reverse()
    if after:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise HttpError(400, f"there is no item {after!r}", "invalid_value", where="/after")
        items = items[ids.index(after) + 1 :]
    shown = items[:limit]
    return {
        "object": "list",
        "data": shown,
        "has_more": len(items) > limit,
        "first_id": shown[0]["id"] if shown else "",
        "last_id": shown[-1]["id"] if shown else "",
    }
