"""Work for a client that may go away meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request

from server.errors import HttpError
from server.turns.active_request import Begun

T = TypeVar("T")
GONE = 499  # what nginx calls it; nobody reads it


async def wait_for_client(
    request: Request, work: Coroutine[Any, Any, T], cancel: Callable[[], None] = lambda: None
) -> T:
    """Does the work as long as the client waits for it.

    Args:
        request: whose client.
        work: what to do.
        cancel: is called in the end, also where the work has not begun.

    Raises:
        HttpError: the client has gone away; the work was cancelled.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_watch(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HttpError(GONE, "the client has gone away", "client_closed_request")
        return task.result()
    finally:
        cancel()
        for other in (task, gone):
            if not other.done():
                other.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await other


async def wait_for_start(request: Request, begun: Begun) -> None:
    """Waits with the head of a stream until there is something to stream, or until a ping is due.

    Raises:
        Error: the request is refused; nothing was sent, so that it can be with its own status.
        HttpError: as above.
    """
    try:
        await wait_for_client(request, begun.wait(begun.service.settings.ping_seconds))
    except BaseException:
        begun.cancel()
        raise


async def _watch(request: Request) -> None:
    """Comes back when the client has gone away; the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
