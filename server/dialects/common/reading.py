"""Reads requests off the event loop, in the threads that read and compile; clients take turns.

Each body is read once: in the threads of its model; or, if the server has several models and only
the body names one, in threads that all models share.
"""

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel

from constrained.decode.schedule.streams import Wanted, arun, check_demand
from constrained.decode.schedule.workers import Order
from constrained.limits.deadline import set_deadline
from grammars.schema.json_values import JsonObject
from server.dialects.common.body import read_object, receive_body, validate_fields
from server.http.caller import as_caller, find_owner
from server.http.disconnects import wait_for_client
from server.http.gate import find_key
from server.http.leases import hold
from server.http.time_left import find_time_left, start_time
from server.models.served_models import ServedModels
from server.settings import Settings
from server.turns.fields.openai_fields import ANSWERS
from server.turns.service import Service

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
QUICK = 64 << 10
"""Smaller bodies (in bytes) do not wait for the requests of other clients."""
_ANSWER_FIELDS = (
    *ANSWERS,
    "structured_outputs",
    "output_config",
    "output_format",
    "text",
    "format",
)
"""Fields of all dialects for the form of the answer: lowering their schema takes time."""


async def read_request(
    request: Request, kind: type[M], read: Callable[[M, Service], T]
) -> tuple[Service, M, T]:
    """Reads a request while its client is connected: finds its model, validates its fields, and
    calls `read`.

    If the server has several models, the field `model` of the body, or of the query, names one.

    Args:
        read: makes the value from the request and its model.

    Raises:
        HttpError, Error: the request is not valid, its model is unknown or cannot be loaded, or the
            client has disconnected.
    """
    data = await receive_body(request)
    is_short = len(data) <= QUICK
    models: ServedModels = request.app.state.models
    settings: Settings = request.app.state.settings
    time_left = start_time(settings.timeout)
    name = request.query_params.get("model")
    known: JsonObject | None = None
    if models.has_choice and not name:
        reading = partial(read_object, data, settings)
        known = await run_unassigned(request, reading, quick=is_short)
        given = known.get("model")
        name = given if isinstance(given, str) else None  # the dialect reports it
    with time_left.pause():  # loading a model also serves other requests
        service = await find_named_service(request, name)

    def read_all() -> tuple[M, list[T]]:
        value = read_object(data, settings) if known is None else known
        body = validate_fields(value, kind)
        if is_short and not _is_quick(body):
            return body, []
        return body, [read(body, service)]

    body, done = await run_off_loop(request, service, read_all, quick=is_short)
    if done:
        return service, body, done[0]
    made = await run_off_loop(request, service, partial(read, body, service), quick=False)
    return service, body, made


async def read_fields(request: Request, kind: type[M]) -> M:
    """Reads a request that needs no model, while its client is connected."""
    data = await receive_body(request)
    settings: Settings = request.app.state.settings
    start_time(settings.timeout)

    def read() -> M:
        return validate_fields(read_object(data, settings), kind)

    return await run_unassigned(request, read, quick=len(data) <= QUICK)


async def run_unassigned(request: Request, work: Callable[[], T], *, quick: bool) -> T:
    """Runs work for a request in the threads that all models share, while its client is connected.
    Work that is not `quick` waits for its turn.

    Raises:
        HttpError: the client has disconnected.
        BusyError, DeadlineError: too much work is waiting, or the time of the request is over.
    """
    models: ServedModels = request.app.state.models
    seconds = find_time_left(request.app.state.settings.timeout).measure()
    deadline = set_deadline(seconds, time.monotonic)
    work, owner = as_caller(work), find_owner()

    def start(is_wanted: Wanted) -> Future[T]:
        check = partial(check_demand, is_wanted, deadline, time.monotonic)
        return models.readers.submit(work, Order(owner, is_known=quick, check=check))

    return await wait_for_client(request, arun(start))


async def run_off_loop(
    request: Request, service: Service, work: Callable[[], T], *, quick: bool
) -> T:
    """Runs work for a request in the compile threads; the rest is as in `run_unassigned`."""
    work = as_caller(work)
    seconds = find_time_left(service.settings.timeout).measure()
    start = service.model.queue.prepare(work, seconds, find_owner(), is_known=quick)
    return await wait_for_client(request, arun(start))


def _is_quick(body: object) -> bool:
    return all(getattr(body, name, None) is None for name in _ANSWER_FIELDS)


async def find_named_service(request: Request, name: str | None) -> Service:
    """Returns the model of this name, which stays loaded until the request has been answered. If
    that has a body, it must have been read: waiting for a model would consume it."""
    models: ServedModels = request.app.state.models
    model = await wait_for_client(request, models.acquire(name))
    hold(request.scope, partial(models.release, model))
    assert model.service is not None, "who has acquired it keeps it loaded"
    return model.service


def find_key_owner(request: Request) -> str:
    """Returns the owner of what a request stores and finds on the server: a hash of its API key; ""
    if no key is needed."""
    if not request.app.state.settings.api_keys:
        return ""
    return hashlib.sha256(find_key(request.scope["headers"])).hexdigest()
