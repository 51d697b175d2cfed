"""Reading requests: off the event loop, in the threads that compile, each client in turn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from fastapi import Request
from pydantic import BaseModel

from server.caller import as_caller, find_owner
from server.http.body import read_body, receive_body
from server.http.disconnects import wait_for_client
from server.turns.service import Service

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
QUICK = 64 << 10
"""Bytes of a body that is read without waiting for those of other clients."""
_ANSWERS = (
    "response_format",
    "json_schema",
    "structured_outputs",
    "grammar",
    "regex",
    "choice",
    "output_config",
    "output_format",
    "text",
)
"""Fields of all dialects that say what an answer has to be: to read a schema takes its time."""


@dataclass(frozen=True)
class _Read(Generic[T]):
    """What was read, which may be None."""

    value: T


async def read_request(
    request: Request, service: Service, kind: type[M], read: Callable[[M, Service], T]
) -> tuple[M, T]:
    """Reads a request, as long as its client waits for it.

    Args:
        kind: the request of a dialect.
        read: makes what the server works on of it.

    Raises:
        HttpError, Error: something in it cannot be, or the client has disconnected.
    """
    data = await receive_body(request)
    is_short = len(data) <= QUICK

    def read_all() -> tuple[M, _Read[T] | None]:
        body = read_body(data, kind, service.settings)
        if is_short and not _is_quick(body):
            return body, None
        return body, _Read(read(body, service))

    body, done = await run_off_loop(request, service, read_all, quick=is_short)
    if done is not None:
        return body, done.value
    return body, await run_off_loop(request, service, partial(read, body, service), quick=False)


async def run_off_loop(
    request: Request, service: Service, work: Callable[[], T], *, quick: bool
) -> T:
    """Does some work for a request in the threads that compile, as long as its client waits.

    Args:
        quick: it takes no longer than a look at the clock; all else waits for its turn.

    Raises:
        HttpError: the client has disconnected.
        BusyError, DeadlineError: too much waits, or the time of the request is over.
    """
    work = as_caller(work)
    working = service.model.aread(work, service.settings.timeout, client=find_owner(), quick=quick)
    return await wait_for_client(request, working)


def _is_quick(body: object) -> bool:
    """True if nothing in a request takes long to read."""
    return all(getattr(body, name, None) is None for name in _ANSWERS)
