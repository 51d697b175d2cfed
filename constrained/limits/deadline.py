"""Deadlines of requests, and timings of turns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from constrained.errors import DeadlineError, ModelError, RequestError

Clock = Callable[[], float]
"""Returns seconds that never decrease, such as `time.monotonic`."""
MAX_SECONDS = 1e9  # seconds


@dataclass(frozen=True)
class Timings:
    """How long a turn took, without the time in the queue: the prompt, until the first token is
    sampled, and from then on until the turn ended."""

    prompt_seconds: float = 0.0
    generation_seconds: float = 0.0


class Stopwatch:
    """Times a turn, from the creation of this object."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._began = clock()
        self._read_at: float | None = None

    def note_read(self) -> None:
        """Notes that the prompt is read. A second call does nothing."""
        if self._read_at is None:
            self._read_at = self._clock()

    def read(self) -> Timings:
        now = self._clock()
        read_at = now if self._read_at is None else self._read_at
        return Timings(read_at - self._began, now - read_at)


@dataclass(frozen=True)
class Deadline:
    """The end of a request's time on the clock of the schedule, and the seconds that it was
    given."""

    at: float
    seconds: float

    def is_over(self, now: float) -> bool:
        return now >= self.at

    def fail_waiting(self) -> DeadlineError:
        return self._fail("it was still waiting", "load the model with more sequences")

    def fail_compiling(self) -> DeadlineError:
        return self._fail("it was being compiled", "simplify its tools and schemas")

    def fail_running(self, read: int, size: int, generated: int) -> DeadlineError:
        """The error after `read` of the `size` tokens of the prompt, and `generated` tokens."""
        if read < size:
            state = f"{read} of the {size} tokens of its prompt were read"
            return self._fail(state, "shorten the prompt")
        what = "1 token was" if generated == 1 else f"{generated} tokens were"
        return self._fail(f"{what} generated", "lower max_tokens")

    def fail_draining(self) -> ModelError:
        """The error of a request that is not done when its process has to end, or its model is
        closed."""
        if not self.seconds:
            return ModelError("the model is closed; the request was not finished")
        message = f"the model shuts down; the request was not finished within {self.seconds:g} s"
        return ModelError(message, hint="Ask again when it is back")

    def _fail(self, state: str, hint: str) -> DeadlineError:
        message = f"the request was not finished after {self.seconds:g} seconds: {state}"
        return DeadlineError(message, hint=f"Allow more time (timeout), or {hint}")


def check_timeout(timeout: Any, name: str = "timeout") -> None:
    """Raises RequestError unless this is None or a number of seconds above 0."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < timeout <= MAX_SECONDS):
        message = f"{name} is {timeout!r}, must be a number of seconds above 0"
        raise RequestError(message, where=f"/{name}", hint="Leave it out for the default")


def set_deadline(timeout: float | None, clock: Clock) -> Deadline | None:
    return None if timeout is None else Deadline(clock() + timeout, timeout)
