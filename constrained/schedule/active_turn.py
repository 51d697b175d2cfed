"""A request that runs on a sequence."""

from dataclasses import dataclass

from constrained.decode.turn_decoder import TurnDecoder
from constrained.schedule.admission import Seat
from constrained.schedule.fair_share import FairShare


@dataclass(frozen=True)
class ActiveTurn:
    """An admitted request, which runs on a sequence."""

    seat: Seat
    turn: TurnDecoder
    share: FairShare
