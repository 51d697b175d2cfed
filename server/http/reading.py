"""Reading requests: off the event loop, in the threads that compile, each client in turn."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from fastapi import Request

from server.caller import find_owner
from server.http.disconnects import wait_for_client
from server.turns.service import Service

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
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


class Readable(Protocol[T_co]):
    """A request of a dialect."""

    def read(self, service: Service) -> T_co:
        """What is asked for."""
        ...


def is_quick(body: object) -> bool:
    """True if nothing in a request takes long to read."""
    return all(getattr(body, name, None) is None for name in _ANSWERS)


async def read_request(request: Request, service: Service, body: Readable[T]) -> T:
    """Reads a request, as long as its client waits for it.

    Raises:
        HttpError, Error: something in it cannot be, or the client has gone away.
    """
    return await run_reading(request, service, body.read, quick=is_quick(body))


async def run_reading(
    request: Request, service: Service, read: Callable[[Service], T], *, quick: bool
) -> T:
    """As `read_request`, by a function."""
    work = service.model.aread(
        partial(read, service),
        service.settings.timeout,
        client=find_owner(),
        quick=quick,
    )
    return await wait_for_client(request, work)
