"""The end of a server: what is under way has some time, then it ends with an error that says why.

A model ends its own turns at that time (`Model.drain`). All else that a request may wait for, such
as a tool of an MCP server, a connection to one, or a model that is loaded, ends here.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from constrained.deadline import Deadline
from constrained.errors import ModelError

T = TypeVar("T")
LATER = 0.5  # seconds after the end of turns, whose errors say more


class ServerEnd:
    """When the requests of a server have to be over."""

    def __init__(self):
        self._waiting: set[asyncio.Future[ModelError]] = set()

    def begin(self, seconds: float) -> None:
        """The server stops in so many seconds. For the thread of the event loop, and for a handler
        of a signal in it."""
        error = Deadline(seconds, seconds).fail_draining()
        with suppress(RuntimeError):  # the loop has not begun, or has ended
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(loop.call_later, seconds + LATER, self._end_all, error)

    def _end_all(self, error: ModelError) -> None:
        for waiting in [*self._waiting]:
            if not waiting.done():
                waiting.set_result(error)

    async def wait(self) -> ModelError:
        """Waits for the end.

        Returns:
            The error of what is under way.
        """
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            return await waiting
        finally:
            self._waiting.discard(waiting)

    async def limit(self, work: Coroutine[Any, Any, T]) -> T:
        """Does some work that is cancelled when the server ends.

        Raises:
            ModelError: the server has ended.
        """
        task = asyncio.ensure_future(work)
        over = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise over.result()
            return task.result()
        finally:
            for other in (task, over):
                if not other.done():
                    other.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await other
