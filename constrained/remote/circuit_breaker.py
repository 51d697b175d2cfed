"""A circuit breaker: after several failures, an engine gets no requests for a while."""

from constrained.errors import RemoteError
from constrained.limits.deadline import Clock

FAILURES = 5  # in succession
PAUSE = 10.0  # seconds


class CircuitBreaker:
    """Counts outages of one engine. While the circuit is open, requests fail at once; after the
    pause, one request tries the engine again."""

    def __init__(self, engine: str, clock: Clock):
        self._engine = engine
        self._clock = clock
        self._failures = 0
        self._tried_at = 0.0  # the time of the next try

    def check(self) -> None:
        """Raises RemoteError if the circuit is open; otherwise, the request may try the engine."""
        if self._failures < FAILURES:
            return
        now = self._clock()
        if now < self._tried_at:
            rest = self._tried_at - now
            message = f"{self._engine} failed {self._failures} times in a row"
            hint = f"It is tried again in {rest:.0f} s"
            raise RemoteError(message, hint=hint, retry_after=rest)
        self._tried_at = now + PAUSE  # other requests wait for the result of this try

    def note_success(self) -> None:
        """Notes that the engine has answered."""
        self._failures = 0

    def note_failure(self, error: Exception) -> None:
        """Notes that a request has failed; only outages count."""
        if isinstance(error, RemoteError) and error.is_outage:
            self._failures += 1
            self._tried_at = self._clock() + PAUSE
