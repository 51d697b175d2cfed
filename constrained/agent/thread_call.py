"""A call of a sync run that is executed in a thread."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ThreadCall(Generic[T]):
    """Work in a thread. Cancelling it cancels a coroutine at its next `await`; a function runs to
    its end, but its result is dropped.

    Args:
        pool: the threads.
        work: a function that returns the result, or a coroutine that does.
    """

    def __init__(self, pool: ThreadPoolExecutor, work: Callable[[], T | Coroutine[Any, Any, T]]):
        self._work = work
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._stop: Callable[[], object] | None = None
        self._future: Future[T] = pool.submit(contextvars.copy_context().run, self._do)

    def _do(self) -> T:
        result = self._work()
        if not asyncio.iscoroutine(result):
            return result  # type: ignore[return-value]  what is no coroutine is the result
        return asyncio.run(self._finish(result))

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        with self._lock:
            self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
            if self._is_cancelled:
                task.cancel()
        return await task

    def result(self) -> T:
        """Waits for the result."""
        return self._future.result()

    def cancel(self) -> None:
        """Stops it; a second time, or when it is done, does nothing."""
        self._future.cancel()
        with self._lock:
            self._is_cancelled = True
            if self._stop is not None:
                with suppress(RuntimeError):  # its event loop is closed: it is done
                    self._stop()
