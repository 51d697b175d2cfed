"""Responses: the paths; all but the first concern stored responses."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, TypeVar

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response

from grammars.schema.json_values import JsonObject
from server.dialects.common.reading import find_key_owner, read_request, run_unassigned
from server.dialects.common.replies import answer
from server.dialects.responses.items import pack_checked, read_input
from server.dialects.responses.reply import ResponsesWriter
from server.dialects.responses.request import ResponsesRequest, locating_errors
from server.dialects.responses.store import ResponseStore, StoredResponse
from server.dialects.responses.truncation import drop_oldest
from server.errors import HttpError, refuse
from server.http.disconnects import wait_for_client
from server.http.openapi import STREAMED, ApiRouter, describe_errors
from server.http.sse import encode_json
from server.http.time_left import find_time_left
from server.turns.active_request import ActiveRequest, start_request
from server.turns.compiled_request import CompiledRequest, compile_request
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

router = ApiRouter()
T = TypeVar("T")
JSON = "application/json"
KEPT = describe_errors(400, 401, 404, 503)
EXAMPLE = {"model": "demo", "input": "Hello!", "max_output_tokens": 30}
NO_COMPACTION = (
    "this server compacts no conversations: let a model write a summary, and send it as a message"
)


@dataclass(frozen=True)
class _ReadRequest:
    """A request that has been read: the fields of the response that repeat it, the conversation
    that it answers, and both in the stored form."""

    turn_request: TurnRequest
    described: JsonObject
    context: tuple[JsonObject, ...]
    packed: bytes


@router.post_json("/v1/responses", ResponsesRequest, EXAMPLE, responses=STREAMED)
async def create_response(request: Request) -> Response:
    """Answers a conversation with text, with calls of tools, or with both."""
    service, body, read = await _read_request(request)
    starting = _start(service, body, read.turn_request)
    active = await wait_for_client(request, starting)
    keep = None
    if body.store is not False:
        keep = partial(
            find_response_store(request).keep,
            context=read.context,
            owner=find_key_owner(request),
            repeated=frozenset(read.described),
            request=read.packed,
        )
    writer = ResponsesWriter(
        active.compiled,
        read.described,
        keep=keep,
        shows_logprobs=body.shows_logprobs,
        seals=body.seals,
    )
    return await answer(request, active, writer, is_streamed=body.stream is True)


@router.post_json("/v1/responses/input_tokens", ResponsesRequest, EXAMPLE)
async def count_tokens(request: Request) -> Response:
    """Counts the tokens of a request's prompt; generates nothing."""
    service, body, read = await _read_request(request)
    compiling = _compile(service, body, read.turn_request)
    compiled = await wait_for_client(request, compiling)
    count = {"object": "response.input_tokens", "input_tokens": len(compiled.turn.tokens)}
    return JSONResponse(count, headers=compiled.headers)


@router.post("/v1/responses/compact", include_in_schema=False)
async def compact() -> Response:
    """Refuses: only the model that reads a compacted conversation could have written it."""
    raise HttpError(501, NO_COMPACTION, "not_implemented")


async def _read_request(request: Request) -> tuple[Service, ResponsesRequest, _ReadRequest]:
    read = partial(_read, store=find_response_store(request), owner=find_key_owner(request))
    return await read_request(request, ResponsesRequest, read)


def _read(
    body: ResponsesRequest, service: Service, *, store: ResponseStore, owner: str
) -> _ReadRequest:
    earlier = _find_earlier(body, store, owner)
    context = (*earlier, *read_input(body.input, partial(store.find_items, owner)))
    turn_request = body.read(service, context)
    described = body.describe(turn_request)
    return _ReadRequest(turn_request, described, context, pack_checked(described, context))


async def _start(service: Service, body: ResponsesRequest, request: TurnRequest) -> ActiveRequest:
    with locating_errors(body.input):
        return await start_request(service, await _fit(service, body, request))


async def _compile(
    service: Service, body: ResponsesRequest, request: TurnRequest
) -> CompiledRequest:
    with locating_errors(body.input):
        fitting = await _fit(service, body, request)
        seconds = find_time_left(service.settings.timeout).measure()
        return await compile_request(service, fitting, seconds)


async def _fit(service: Service, body: ResponsesRequest, request: TurnRequest) -> TurnRequest:
    """Returns the request, without its oldest messages if it is too long and asks for that."""
    return await drop_oldest(service, request) if body.truncation == "auto" else request


def _find_earlier(
    body: ResponsesRequest, store: ResponseStore, owner: str
) -> tuple[JsonObject, ...]:
    id = body.previous_response_id
    if id is None:
        return ()
    where = "/previous_response_id"
    stored = store.get(owner, id)
    if stored is None:
        message = f"there is no response {id!r} to continue from"
        raise refuse(message, where, "previous_response_not_found")
    if stored.response["status"] == "failed":
        raise refuse(f"the response {id!r} has failed", where)
    return stored.conversation


def find_response_store(request: Request) -> ResponseStore:
    return request.app.state.responses


async def _read_kept(id: str, request: Request, read: Callable[[StoredResponse], T]) -> T:
    store, owner = find_response_store(request), find_key_owner(request)

    def find() -> T:
        stored = store.get(owner, id)
        if stored is None:
            raise HttpError(404, f"there is no response {id!r}", "not_found")
        return read(stored)

    return await run_unassigned(request, find, quick=False)


@router.get("/v1/responses/{id}", responses=KEPT)
async def show_response(id: str, request: Request, stream: bool = False) -> Response:
    """Returns a stored response."""
    if stream:
        message = "a response is streamed only while it is made: leave stream out"
        raise refuse(message, "/stream", "unsupported_field")
    shown = await _read_kept(id, request, lambda stored: encode_json(stored.response))
    return Response(shown, media_type=JSON)


@router.delete("/v1/responses/{id}", responses=KEPT)
async def delete_response(id: str, request: Request) -> JsonObject:
    """Deletes a response."""
    if not find_response_store(request).delete(find_key_owner(request), id):
        raise HttpError(404, f"there is no response {id!r}", "not_found")
    return {"id": id, "object": "response", "deleted": True}


@router.post("/v1/responses/{id}/cancel", responses=KEPT)
async def cancel_response(id: str, request: Request) -> Response:
    """Refuses: a response that has an id is not running; closing the stream ends one that is."""
    status = await _read_kept(id, request, lambda stored: stored.response["status"])
    raise refuse(f"the response is {status}: close the stream of one that is running to cancel it")


@router.get("/v1/responses/{id}/input_items", responses=KEPT)
async def list_input_items(
    id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str = "",
) -> Response:
    """Lists the items that a response answered, including those of earlier responses."""
    show = partial(_show_items, limit=limit, order=order, after=after)
    return Response(await _read_kept(id, request, show), media_type=JSON)


def _show_items(
    stored: StoredResponse, *, limit: int, order: Literal["asc", "desc"], after: str
) -> bytes:
    items = list(stored.context)
    if order == "desc":
        items.reverse()
    if after:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise refuse(f"there is no item {after!r}", "/after")
        items = items[ids.index(after) + 1 :]
    shown = items[:limit]
    page = {
        "object": "list",
        "data": shown,
        "has_more": len(items) > limit,
        "first_id": shown[0]["id"] if shown else "",
        "last_id": shown[-1]["id"] if shown else "",
    }
    return encode_json(page)
