"""The end of a server: running requests get some time, then they end with an error that says why.

A model ends its own turns at that time (`Model.drain`). Everything else for which a request may
wait, such as the loading of a model, ends here. What
nothing can end, such as a long call into a library, ends with the process.
"""

import asyncio
import faulthandler
import os
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from constrained.errors import ModelError
from constrained.limits.deadline import Deadline

T = TypeVar("T")
LATER = 0.5  # seconds after the end of turns, because their errors say more
CANCEL_SECONDS = 2.0  # for cancelled work to end; slower work is not waited for
EXIT_SECONDS = 1.25
"""Seconds for an orderly end after the time of running requests. A busy process notices a signal
late, by up to 0.7 seconds on a busy machine; even so, it ends within two."""


def end_process(seconds: float) -> None:
    """Ends this process in this time and `EXIT_SECONDS`, with status 1, unless it has ended before.
    A second call sets a new time.

    The time is measured by a thread of C that needs no lock of Python's: no code and no call into a
    library can delay it. What clients were told is on disk already.
    """
    nowhere = open(os.devnull, "w")  # noqa: SIM115  open until the end; a full pipe could block
    faulthandler.dump_traceback_later(seconds + EXIT_SECONDS, exit=True, file=nowhere)


class ServerEnd:
    """The time at which the requests of a server must end."""

    def __init__(self):
        self._end: Deadline | None = None
        self._changed = asyncio.Event()

    @property
    def has_started(self) -> bool:
        """True when the server is stopping, even while requests still have time."""
        return self._end is not None

    def begin(self, seconds: float) -> None:
        """Stops the server in this time, unless it is stopping earlier already. For the thread of
        the event loop, and for a handler of a signal in it."""
        end = Deadline(time.monotonic() + seconds + LATER, seconds)
        if self._end is not None and self._end.at <= end.at:
            return
        self._end = end
        with suppress(RuntimeError):  # the loop has not begun, or has ended: no task waits
            asyncio.get_running_loop().call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        self._changed.set()
        self._changed.clear()

    async def wait(self) -> ModelError:
        """Waits for the end; returns at once if it has come. The error is for running work, and new
        each time: a shared one would collect the tracebacks of all tasks that raise it."""
        while self._end is None or not self._end.is_over(time.monotonic()):
            rest = None if self._end is None else self._end.at - time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), rest)
        return self._end.fail_draining()


async def run_until(work: Coroutine[Any, Any, T], *ends: Coroutine[Any, Any, Exception]) -> T:
    """Runs work until it is done, or cancels it at the first of some ends, each of which returns
    the error for the work."""
    task = asyncio.ensure_future(work)
    over = [asyncio.ensure_future(end) for end in ends]
    try:
        await asyncio.wait((task, *over), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise next(end.result() for end in over if end.done())
        return task.result()
    finally:
        await _cancel_all((task, *over))


async def _cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels unfinished tasks and waits until they have ended, at most `CANCEL_SECONDS`. Their
    results and errors are not needed any more."""
    cancelled = [task for task in tasks if not task.done()]
    for task in cancelled:
        task.add_done_callback(_drop_error)
        task.cancel()
    if cancelled:
        await asyncio.wait(cancelled, timeout=CANCEL_SECONDS)


def _drop_error(task: asyncio.Future[Any]) -> None:
    """So that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
