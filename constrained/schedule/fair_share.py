"""A fair share of the decode thread: who needs it long for a mask waits until others have had it.

All turns under way share one thread. Beside the model's decode, it computes their masks, commits
their tokens and looks for endings: microseconds for most, up to a second where a client asks for
thousands of alternatives. Without a bound on that, one such turn would set the pace of all others.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from constrained.deadline import Clock

FREE = 0.005
"""Seconds of its own work in a step that no turn is charged for."""


class FairShare:
    """What one turn has taken of the thread, and until when it sits out for that.

    A turn that has worked for itself longer than its part of the model's decode sits out so long
    that each of the turns under way gets as much time as it had.

    Args:
        clock: seconds.
        cpu_clock: seconds that the thread has worked. A turn does not pay for the time in which
            other threads have the interpreter lock, or other processes the CPU.

    Attributes:
        is_costly: the last step was charged.
    """

    def __init__(self, clock: Clock, cpu_clock: Clock):
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._taken = 0.0  # seconds, in this step
        self._sits_out_until = 0.0
        self.is_costly = False

    @contextmanager
    def measure(self, *, is_elsewhere: bool = False) -> Iterator[None]:
        """Counts the time of the block, whichever thread runs it.

        Args:
            is_elsewhere: another device may work for it: the time counts in which that is waited
                for.
        """
        clock = self._clock if is_elsewhere else self._cpu_clock
        since = clock()
        try:
            yield
        finally:
            self._taken += clock() - since

    def charge(self, decode: float, turns: int) -> None:
        """The step is over.

        Args:
            decode: seconds that the model took for the batch.
            turns: how many are under way.
        """
        excess = self._taken - max(FREE, decode / turns)
        self._taken = 0.0
        self.is_costly = excess > 0
        if self.is_costly:
            self._sits_out_until = self._clock() + excess * (turns - 1)

    @property
    def sits_out(self) -> bool:
        """True while the others are to go on without it."""
        return self._clock() < self._sits_out_until
