"""The end of a server: what is under way has some time, then it ends with an error that says why.

A model ends its own turns at that time (`Model.drain`). All else that a request may wait for, such
as a tool of an MCP server, a connection to one, or a model that is loaded, ends here.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from constrained.deadline import Deadline
from constrained.errors import ModelError
from constrained.schedule.streams import drop_error

T = TypeVar("T")
LATER = 0.5  # seconds after the end of turns, whose errors say more
CANCEL_SECONDS = 2.0  # for work to end that was cancelled; what takes longer is left behind


class ServerEnd:
    """When the requests of a server have to be over."""

    def __init__(self):
        self._end: Deadline | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def has_begun(self) -> bool:
        """True once the server stops, also while requests still have time."""
        return self._end is not None

    def begin(self, seconds: float) -> None:
        """The server stops in so many seconds; if it stops earlier already, nothing changes. For
        the thread of the event loop, and for a handler of a signal in it."""
        end = Deadline(time.monotonic() + seconds + LATER, seconds)
        if self._end is not None and self._end.at <= end.at:
            return
        self._end = end
        with suppress(RuntimeError):  # the loop has not begun, or has ended: nobody waits
            asyncio.get_running_loop().call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def _find_error(self) -> ModelError | None:
        """A new error, if the server has ended: one that several raise would gather the traces of
        all of them."""
        if self._end is None or not self._end.is_over(time.monotonic()):
            return None
        return self._end.fail_draining()

    async def wait(self) -> ModelError:
        """Waits for the end; not at all, if it has come.

        Returns:
            The error of what is under way.
        """
        while (error := self._find_error()) is None:
            rest = None if self._end is None else self._end.at - time.monotonic()
            woken = asyncio.get_running_loop().create_future()
            self._waiting.add(woken)
            try:
                await asyncio.wait({woken}, timeout=rest)
            finally:
                self._waiting.discard(woken)
        return error

    async def limit(self, work: Coroutine[Any, Any, T]) -> T:
        """Does some work that is cancelled when the server ends, and not begun afterwards.

        Raises:
            ModelError: the server has ended.
        """
        if (error := self._find_error()) is not None:
            work.close()
            raise error
        task = asyncio.ensure_future(work)
        over = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise over.result()
            return task.result()
        finally:
            await cancel_all((task, over))


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels what is not done, and waits until it has ended, at most `CANCEL_SECONDS`. No one
    needs its result or its error any more."""
    cancelled = [task for task in tasks if not task.done()]
    for task in cancelled:
        task.add_done_callback(drop_error)
        task.cancel()
    if cancelled:
        await asyncio.wait(cancelled, timeout=CANCEL_SECONDS)
