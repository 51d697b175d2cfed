"""Work that is done while the model decodes, where another device does that."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


class DecodeOverlap:
    """A thread that works while the model decodes. llama.cpp lets go of the interpreter lock
    meanwhile.

    On a CPU the model takes all cores, and there is nothing to be gained.

    Args:
        is_on: there is time for other work while the model decodes.
    """

    def __init__(self, is_on: bool):
        self.is_on = is_on
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def working(self, work: Callable[[], None]) -> Iterator[None]:
        """Does the work while the body runs, and waits for both; where it is off, the body alone.

        Raises:
            Exception: whatever the work raises, if the body does not.
        """
        if not self.is_on:
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
        """Ends the thread; another one is made if need be."""
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None
