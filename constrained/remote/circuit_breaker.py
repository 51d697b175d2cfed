"""A circuit breaker: an engine that failed again and again is left alone for a time."""

from constrained.deadline import Clock
from constrained.errors import RemoteError

FAILURES = 5  # one after the other
PAUSE = 10.0  # seconds


class CircuitBreaker:
    """Counts outages of one engine. While it is left alone, requests fail at once; then one of them
    tries it again.

    Args:
        engine: its name.
        clock: seconds.
    """

    def __init__(self, engine: str, clock: Clock):
        self._engine = engine
        self._clock = clock
        self._failures = 0
        self._tried_at = 0.0  # the next time

    def check(self) -> None:
        """Raises RemoteError if the engine is left alone; else a request may try it."""
        if self._failures < FAILURES:
            return
        now = self._clock()
        if now < self._tried_at:
            rest = self._tried_at - now
            message = f"{self._engine} failed {self._failures} times in a row"
            hint = f"It is tried again in {rest:.0f} s"
            raise RemoteError(message, hint=hint, retry_after=rest)
        self._tried_at = now + PAUSE  # others wait for what comes of this try

    def note_success(self) -> None:
        """It has answered."""
        self._failures = 0

    def note_failure(self, error: Exception) -> None:
        """A request has failed; only outages count."""
        if isinstance(error, RemoteError) and error.is_outage:
            self._failures += 1
            self._tried_at = self._clock() + PAUSE
