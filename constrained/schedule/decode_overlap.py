"""A second thread beside the one that decodes, where another device does the work of that."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import numpy as np

FEWEST_SPLIT = 4  # rows; for fewer, a second thread costs more than it saves
OWN_PART = 3  # one row in so many is looked at by the thread itself, which then takes their tokens


class LikeliestTokens:
    """The most likely tokens behind the rows of a decode: where a row has NaN, the first of these.

    Args:
        logits: of the decode.
        first: those of the first rows, which are known already.
        rest: those of the others; None: each row is looked at when it is asked about.
    """

    def __init__(self, logits: np.ndarray, first: np.ndarray, rest: Future[np.ndarray] | None):
        self._logits = logits
        self._first = first
        self._rest = rest

    def find(self, row: int) -> int:
        """The one behind a row. Waits until it is known."""
        if row < len(self._first):
            return int(self._first[row])
        if self._rest is not None and self._rest.cancel():  # no core was free for the other thread
            self._rest = None
        if self._rest is None:
            return int(self._logits[row].argmax())
        return int(self._rest.result()[row - len(self._first)])


class DecodeOverlap:
    """A thread that works while the model decodes. llama.cpp lets go of the interpreter lock
    meanwhile. Between two decodes it looks through the logits, for numpy lets go of it, too.

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
        done = self._start_pool().submit(work)
        try:
            yield
        except BaseException:
            done.exception()  # waits, too
            raise
        done.result()

    @contextmanager
    def finding_likeliest(self, logits: np.ndarray, wanted: int) -> Iterator[LikeliestTokens]:
        """Finds the most likely tokens while the body runs, of most rows in the other thread.

        Args:
            logits: of a decode.
            wanted: so many rows are about to be asked about; if they are few, no others are looked
                at.
        """
        count = len(logits)
        is_split = self.is_on and wanted >= FEWEST_SPLIT and 2 * wanted >= count
        own = count // OWN_PART if is_split else 0
        rest = None
        if is_split:
            # One call for all rows: after each call, the thread would wait for the interpreter.
            rest = self._start_pool().submit(logits[own:].argmax, axis=1)
        try:
            yield LikeliestTokens(logits, logits[:own].argmax(axis=1), rest)
        finally:
            if rest is not None and not rest.cancel():
                wait([rest])  # the next decode may move the logits

    def _start_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="overlap")
        return self._pool

    def close(self) -> None:
        """Ends the thread; another one is made if need be."""
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None
