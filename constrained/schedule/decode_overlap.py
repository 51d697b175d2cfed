"""A second thread that works for the turns while another device decodes."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import numpy as np

FEWEST_SPLIT = 4  # rows; for fewer, a second thread costs more than it saves
OWN_PART = 3  # the decode thread itself searches a third of the rows, then goes on with them


class LikeliestTokens:
    """The most likely token of each row of logits. If a row has NaN, it is the first NaN.

    Args:
        logits: of a decode; shape (rows, tokens of the vocabulary).
        first: the tokens of the first rows.
        rest: the tokens of the other rows; None: they are searched when they are needed.
    """

    def __init__(self, logits: np.ndarray, first: np.ndarray, rest: Future[np.ndarray] | None):
        self._logits = logits
        self._first = first
        self._rest = rest

    def find(self, row: int) -> int:
        """Returns the most likely token of a row; waits for the other thread if need be."""
        if row < len(self._first):
            return int(self._first[row])
        if self._rest is not None and self._rest.cancel():  # the other thread has not begun
            self._rest = None
        if self._rest is None:
            return int(self._logits[row].argmax())
        return int(self._rest.result()[row - len(self._first)])


class DecodeOverlap:
    """A thread that works while the model decodes, and searches the logits between two decodes.

    llama.cpp and numpy release the interpreter lock meanwhile. If the model runs on the CPU, it
    uses all cores, and a second thread gains nothing.

    Args:
        is_on: whether to use the thread; otherwise all work is done in the calling thread.
    """

    def __init__(self, is_on: bool):
        self.is_on = is_on
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def working(self, work: Callable[[], None]) -> Iterator[None]:
        """Does the work while the body runs, and waits for both. If `is_on` is false, only the
        body runs.

        Raises:
            Exception: the error of the body, or else of the work.
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
        """Finds the most likely token of each row while the body runs.

        Args:
            logits: of a decode; shape (rows, tokens of the vocabulary).
            wanted: how many rows the body will ask for. If they are few, rows are searched only
                when the body asks.
        """
        count = len(logits)
        is_split = self.is_on and wanted >= FEWEST_SPLIT and 2 * wanted >= count
        own = count // OWN_PART if is_split else 0
        rest = None
        if is_split:
            # One call for all rows: after each call, the thread has to wait for the interpreter.
            rest = self._start_pool().submit(logits[own:].argmax, axis=1)
        try:
            yield LikeliestTokens(logits, logits[:own].argmax(axis=1), rest)
        finally:
            if rest is not None and not rest.cancel():
                wait([rest])  # the next decode may overwrite the logits

    def _start_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="overlap")
        return self._pool

    def close(self) -> None:
        """Ends the thread. The object can still be used; it starts another one."""
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None
