"""A second thread that works for the turns while another device decodes."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


class DecodeOverlap:
    """A thread that works while the model decodes.

    llama.cpp releases the interpreter lock meanwhile. If the model runs on the CPU, it uses all
    cores, and a second thread gains nothing.

    Args:
        is_on: whether there is such work, and a thread for it.
    """

    def __init__(self, is_on: bool):
        self._is_on = is_on
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def working(self, work: Callable[[], None]) -> Iterator[None]:
        """Does the work while the body runs, and waits for both. If `is_on` is false, only the
        body runs.

        Raises:
            Exception: the error of the body, or else of the work.
        """
        if not self._is_on:
            yield
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="overlap")
        done = self._pool.submit(work)
        try:
            yield
        except BaseException:
            done.exception()  # waits, too
            raise
        done.result()

    def close(self) -> None:
        """Ends the thread. The object can still be used; it starts another one."""
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None
