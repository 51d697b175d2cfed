"""Work for a client that may go away meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request

from server.errors import HttpError

T = TypeVar("T")
GONE = 499  # what nginx calls it; nobody reads it


async def wait_for_client(
    request: Request, work: Coroutine[Any, Any, T], cancel: Callable[[], None] = lambda: None
) -> T:
    """Does the work as long as the client is connected.

    Args:
        request: the request of that client; its body has been read.
        work: what to do.
        cancel: called in the end, also where the work has not started.

    Raises:
        HttpError: the client has disconnected; the work was cancelled.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_watch(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HttpError(GONE, "the client has disconnected", "client_closed_request")
        return task.result()
    finally:
        cancel()
        for other in (task, gone):
            if not other.done():
                other.cancel()
                # Nobody is left who would want its result, or its error.
                with suppress(asyncio.CancelledError, Exception):
                    await other


async def do_together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Does all works at the same time; the first one that fails ends the others.

    Raises:
        Exception: what that one has raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as errors:  # one is enough: it has ended the other tasks
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _watch(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
