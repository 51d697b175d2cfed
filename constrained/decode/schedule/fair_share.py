"""Fair shares of the decode thread: a turn whose masks take long pauses while others go on.

All running turns share one thread. Besides the model's decode, it computes their masks, commits
their tokens and looks for endings. That takes microseconds for most turns, but up to a second if a
schema has thousands of alternatives. Without fair shares, one such turn would slow all others.
"""

from constrained.limits.deadline import Clock

FREE = 0.005
"""Seconds of work in each step that a turn is not charged for."""


class FairShare:
    """The time that one turn takes of the decode thread, and how long the turn pauses for it.

    A turn is charged if its work in a step takes longer than its part of the model's decode. It
    then pauses until each of the other running turns has had as much time.

    Args:
        cpu_clock: the CPU time of the calling thread in seconds. So a turn does not pay for the
            time in which other threads hold the interpreter lock, or other processes the CPU.

    Attributes:
        is_costly: the turn was charged for the last step.
    """

    def __init__(self, clock: Clock, cpu_clock: Clock):
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._taken = 0.0  # seconds, in this step
        self._sits_out_until = 0.0
        self.is_costly = False

    def measure(self) -> "_Measuring":
        """Adds the time of the body of a `with` to the turn's work in this step, in any thread."""
        return _Measuring(self, self._cpu_clock)

    def add(self, seconds: float) -> None:
        """Adds a time to the turn's work in this step, perhaps that of another device."""
        self._taken += seconds

    def charge(self, decode: float, turns: int) -> None:
        """Ends a step, and charges the turn for its work.

        Args:
            decode: seconds that the model took for the batch.
        """
        excess = self._taken - max(FREE, decode / turns)
        self._taken = 0.0
        self.is_costly = excess > 0
        if self.is_costly:
            self._sits_out_until = self._clock() + excess * (turns - 1)

    @property
    def sits_out(self) -> bool:
        """True while the turn pauses."""
        return self._clock() < self._sits_out_until


class _Measuring:
    """Measures the body of a `with` for a share. A class, since each turn needs several in each
    step, and a generator takes four times as long."""

    __slots__ = ("_clock", "_share", "_since")

    def __init__(self, share: FairShare, clock: Clock):
        self._share = share
        self._clock = clock
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = self._clock()

    def __exit__(self, *exception: object) -> None:
        self._share.add(self._clock() - self._since)
