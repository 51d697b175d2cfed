"""A request that runs on a sequence."""

from dataclasses import dataclass

from constrained.decode.schedule.admission import Seat
from constrained.decode.schedule.fair_share import FairShare
from constrained.decode.turn_decoder import TurnDecoder


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

    @property
    def is_background(self) -> bool:
        """True if its request is not urgent."""
        return self.seat.request.background
