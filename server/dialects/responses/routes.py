"""Responses: the paths."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from server.dialects.responses.items import check_json, read_input, write_messages
from server.dialects.responses.reply import ResponseWriter
from server.dialects.responses.request import ResponsesRequest, naming_places
from server.dialects.responses.store import Store, Stored, measure
from server.errors import HttpError
from server.http.disconnects import wait_for_client, wait_for_start
from server.http.gate import find_key
from server.http.serving import ANSWERS, find_service, note_error
from server.http.sse import EventStream, encode_event, keep_alive
from server.turns.active_request import Begun, begin
from server.turns.turn_request import Asked, Service

router = APIRouter()
Json = dict[str, Any]
KEPT: dict[int | str, dict[str, Any]] = {key: ANSWERS[key] for key in (400, 401, 404, 503)}
HIDDEN: dict[str, Any] = {"responses": ANSWERS, "include_in_schema": False}


@router.post("/v1/responses", responses=ANSWERS)
@router.post("/responses", **HIDDEN)
async def create_response(body: ResponsesRequest, request: Request) -> Response:
    """Answers a conversation: with text, with calls of tools, or with both."""
    service, store = find_service(request), find_store(request)
    owner = find_owner(request)
    asked, described, context = await asyncio.to_thread(_read, body, service, store, owner)
    begun = await wait_for_client(request, _begin(service, asked))
    options = {"shows_logprobs": body.shows_logprobs, "seals": body.seals}
    writer = ResponseWriter(begun, described, **options)
    keeper = Keeper(store if body.store is not False else None, context, owner)
    events = write(begun, writer, keeper)
    if body.stream:
        await wait_for_start(request, begun)
        parts = keep_alive(_encode(events, writer, keeper), service.settings.ping_seconds)
        return EventStream(parts, service.settings.idle_seconds, begun.headers, begun.cancel)
    response = await wait_for_client(request, _find_last(events), begun.cancel)
    return JSONResponse(response, headers=begun.headers)


def _read(
    body: ResponsesRequest, service: Service, store: Store, owner: str
) -> tuple[Asked, Json, tuple[Json, ...]]:
    """What is asked, what the response says of it, and the conversation that it answers. It takes
    long where that is long: not for the event loop.

    Raises:
        HttpError, Error: something in the request cannot be; says where.
    """
    earlier = _find_earlier(body, store, owner)
    context = (*earlier, *read_input(body.input, partial(store.find_items, owner)))
    asked = body.read(service, write_messages(context, body.instructions))
    described = body.describe(asked)
    check_json([described, context])
    return asked, described, context


class Keeper:
    """Keeps a response before its last event goes out, so that the next request finds it.

    Args:
        store: where; None: nowhere.
        context: what the response answers.
        owner: who asked.
    """

    def __init__(self, store: Store | None, context: tuple[Json, ...], owner: str):
        self._store = store
        self._context = context
        self._owner = owner

    async def note(self, event: Json) -> None:
        """Keeps the response of an event, if it is over."""
        response = event.get("response")
        if self._store and response and response["status"] != "in_progress":
            await asyncio.to_thread(self._keep, self._store, response)

    def _keep(self, store: Store, response: Json) -> None:
        size = measure(response) + measure(self._context)
        store.put(Stored(response, self._context, self._owner, size))


async def _begin(service: Service, asked: Asked) -> Begun:
    with naming_places():
        return await begin(service, asked)


def _find_earlier(body: ResponsesRequest, store: Store, owner: str) -> tuple[Json, ...]:
    """The conversation that the request goes on from.

    Raises:
        HttpError: it is not kept, or its last turn has failed.
    """
    if (id := body.previous_response_id) is None:
        return ()
    place, code = "/previous_response_id", "previous_response_not_found"
    if (stored := store.get(owner, id)) is None:
        raise HttpError(400, f"there is no response {id!r} to go on from", code, place)
    if stored.response["status"] == "failed":
        raise HttpError(400, f"the response {id!r} has failed", "invalid_value", place)
    return stored.conversation


async def write(begun: Begun, writer: ResponseWriter, keeper: Keeper) -> AsyncIterator[Json]:
    """The events of a response, which is kept in the end.

    Raises:
        Error: the turn has failed; `ResponseWriter.fail` says so to a stream.
    """
    for event in writer.open():
        yield event
    async for _, told in begun.follow():
        for event in writer.take(told):
            await keeper.note(event)
            yield event


async def _find_last(events: AsyncIterator[Json]) -> Json:
    """The response of the last event."""
    response: Json = {}
    async for event in events:
        response = event.get("response", response)
    return response


async def _encode(
    events: AsyncIterator[Json], writer: ResponseWriter, keeper: Keeper
) -> AsyncIterator[bytes]:
    try:
        async for event in events:
            yield encode_event(event, event["type"])
    except Exception as error:  # the status is sent already: the stream says it
        note_error(error)
        for event in writer.fail(error):
            await keeper.note(event)
            yield encode_event(event, event["type"])


def find_store(request: Request) -> Store:
    """The responses that this server keeps."""
    state = request.app.state
    if not hasattr(state, "responses"):
        state.responses = Store(state.settings.max_stored, state.settings.max_stored_bytes)
    return state.responses


def find_owner(request: Request) -> str:
    """Whose responses a request makes and finds: a hash of its API key; "" where none is needed."""
    if not request.app.state.settings.api_keys:
        return ""
    return hashlib.sha256(find_key(request.scope["headers"])).hexdigest()


def _find(id: str, request: Request) -> Stored:
    if (stored := find_store(request).get(find_owner(request), id)) is None:
        raise HttpError(404, f"there is no response {id!r}", "not_found")
    return stored


@router.get("/v1/responses/{id}", responses=KEPT)
@router.get("/responses/{id}", **HIDDEN)
async def show_response(id: str, request: Request, stream: bool = False) -> Json:
    """A response that is kept."""
    if stream:
        message = "a response is streamed only while it is made: leave stream out"
        raise HttpError(400, message, "unsupported_field", "/stream")
    return _find(id, request).response


@router.delete("/v1/responses/{id}", responses=KEPT)
@router.delete("/responses/{id}", **HIDDEN)
async def delete_response(id: str, request: Request) -> Json:
    """Forgets a response."""
    if not find_store(request).delete(find_owner(request), id):
        raise HttpError(404, f"there is no response {id!r}", "not_found")
    return {"id": id, "object": "response", "deleted": True}


@router.post("/v1/responses/{id}/cancel", responses=KEPT)
@router.post("/responses/{id}/cancel", **HIDDEN)
async def cancel_response(id: str, request: Request) -> Json:
    """Refuses: a response that has an id is not running; closing its stream ends one that is."""
    status = _find(id, request).response["status"]
    message = f"the response is {status}: close the stream of one that is running to cancel it"
    raise HttpError(400, message, "invalid_value")


@router.get("/v1/responses/{id}/input_items", responses=KEPT)
@router.get("/responses/{id}/input_items", **HIDDEN)
async def list_input_items(
    id: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str = "",
) -> Json:
    """What a response answered, those items included that earlier responses brought."""
    items = [*_find(id, request).context]
    items = items if order == "asc" else items[::-1]
    if after:
        places = [place for place, item in enumerate(items) if item["id"] == after]
        if not places:
            raise HttpError(400, f"there is no item {after!r}", "invalid_value", "/after")
        items = items[places[0] + 1 :]
    shown = items[:limit]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {}
    empty = {"first_id": "", "last_id": ""}
    return {"object": "list", "data": shown, "has_more": len(items) > limit} | empty | ends
