"""A request that runs on a sequence."""

from dataclasses import dataclass

from constrained.decode.schedule.admission import Seat
from constrained.decode.schedule.fair_share import FairShare
from constrained.decode.turn_decoder import TurnDecoder


@dataclass(frozen=True)
class ActiveTurn:
    """An admitted request, which runs on a sequence."""

    seat: Seat
    turn: TurnDecoder
    share: FairShare
