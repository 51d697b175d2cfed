"""A request that runs on a sequence."""

from dataclasses import dataclass

from constrained.decode.schedule.admission import Seat
from constrained.decode.turn_decoder import TurnDecoder
from constrained.limits.deadline import Clock

FREE = 0.005
"""Seconds of work in each step that a turn is not charged for."""


class FairShare:
    """The time that one turn takes of the decode thread, and how long the turn pauses for it.

    Besides the model's decode, that thread computes masks, commits tokens and looks for endings,
    for all turns: microseconds for most, but up to a second if a schema has thousands of
    alternatives.

    A turn is charged if its work in a step takes longer than its part of the model's decode. It
    then pauses until each of the other running turns has had as much time.

    The body of a `with` is work of the turn, in any thread. (A method that is a context manager
    would take four times as long, and each turn needs several in each step.)

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
        self._since = 0.0
        self._sits_out_until = 0.0
        self.is_costly = False

    def __enter__(self) -> None:
        self._since = self._cpu_clock()

    def __exit__(self, *exception: object) -> None:
        self._taken += self._cpu_clock() - self._since

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


@dataclass(frozen=True)
class ActiveTurn:
    """An admitted request, which runs on a sequence."""

    seat: Seat
    decoder: TurnDecoder
    share: FairShare

    @property
    def is_reading(self) -> bool:
        """True while its prompt is not decoded yet."""
        return self.decoder.input.is_reading
