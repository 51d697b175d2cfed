"""The time that the request under way has left: one account, whatever is done for it one after the
other."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MIN_SECONDS = (
    1e-3  # seconds; the library refuses a timeout of 0, and reports a tiny one as exceeded
)


class TimeLeft:
    """The seconds that are left to a request; they run from when this is made.

    Args:
        seconds: of the whole request; None: any number.
        clock: seconds that only ever grow.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def measure(self) -> float | None:
        """How many there are now; None: any number."""
        if self._end is None:
            return None
        return max(MIN_SECONDS, self._end - self._clock())

    @contextmanager
    def pause(self) -> Iterator[None]:
        """What happens meanwhile does not count."""
        began = self._clock()
        try:
            yield
        finally:
            if self._end is not None:
                self._end += self._clock() - began


_time_left: ContextVar[TimeLeft] = ContextVar("time_left")


def start_time(seconds: float | None) -> TimeLeft:
    """The time of the request under way begins now."""
    time_left = TimeLeft(seconds)
    _time_left.set(time_left)
    return time_left


def find_time_left(seconds: float | None) -> TimeLeft:
    """That of the request under way; it begins now, if it has not.

    Args:
        seconds: of the whole request; None: any number.
    """
    return _time_left.get(None) or start_time(seconds)
