"""Masks that are computed while the model decodes, where another device does that."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress

from constrained.decode.turn_decoder import TurnDecoder
from constrained.errors import GrammarError


class MaskPrefetch:
    """A thread that computes masks. llguidance lets go of the interpreter lock meanwhile.

    On a CPU the model takes all cores, and there is nothing to be gained.

    Args:
        is_on: there is time for masks while the model decodes.
    """

    def __init__(self, is_on: bool):
        self._is_on = is_on
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def preparing(self, turns: Iterable[TurnDecoder]) -> Iterator[None]:
        """Computes the masks of the next token of each turn while the body runs, and waits."""
        if not self._is_on:
            yield
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="masks")
        done = self._pool.submit(_prepare, list(turns))
        try:
            yield
        finally:
            wait([done])

    def close(self) -> None:
        """Ends the thread; another one is made if need be."""
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None


def _prepare(turns: Iterable[TurnDecoder]) -> None:
    for turn in turns:
        with suppress(GrammarError):  # the turn fails of it when it comes to its token
            turn.prepare()
