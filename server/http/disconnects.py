"""Work for a client that may disconnect in the meantime."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request

from server.errors import HttpError
from server.http.server_end import run_until

T = TypeVar("T")
GONE = 499  # nginx's status for this; no client receives it


def make_gone() -> HttpError:
    return HttpError(GONE, "the client has disconnected", "client_closed_request")


async def wait_for_client(
    request: Request, work: Coroutine[Any, Any, T], cancel: Callable[[], None] = lambda: None
) -> T:
    """Runs the work while the client is connected; the body of the request must have been read.
    `cancel` is called at the end, even if the work was not started.

    Raises:
        HttpError: the client has disconnected; the work was cancelled.
        ModelError: the server has ended; the work was cancelled.
    """
    try:
        return await run_until(work, _watch(request), request.app.state.models.end.wait())
    finally:
        cancel()


async def _watch(request: Request) -> HttpError:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return make_gone()
