"""The remaining time of the current request. All steps of the request, one after the other, share
it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MIN_SECONDS = 1e-3
"""The library refuses a timeout of 0, and reports a tiny one as exceeded."""


class TimeLeft:
    """The remaining seconds of a request, counted from the creation of this object; None: no
    limit."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def measure(self) -> float | None:
        if self._end is None:
            return None
        return max(MIN_SECONDS, self._end - self._clock())

    @contextmanager
    def pause(self) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            if self._end is not None:
                self._end += self._clock() - began


_time_left: ContextVar[TimeLeft] = ContextVar("time_left")


def start_time(seconds: float | None) -> TimeLeft:
    time_left = TimeLeft(seconds)
    _time_left.set(time_left)
    return time_left


def find_time_left(seconds: float | None) -> TimeLeft:
    """Returns the remaining time of the current request; if it has not started, it starts now, with
    so many seconds (None: any number)."""
    return _time_left.get(None) or start_time(seconds)
