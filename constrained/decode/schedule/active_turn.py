"""A request that runs on a sequence."""

from collections.abc import Iterable
from dataclasses import dataclass

from constrained.decode.request import Request
from constrained.decode.schedule.admission import Seat
from constrained.decode.schedule.fair_share import FairShare
from constrained.decode.turn_decoder import TurnDecoder
from grammars.wire.format import count_common


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


def count_being_read(request: Request, running: Iterable[ActiveTurn]) -> int:
    """Returns how many tokens of its prompt other requests of the same scope are reading.
    Background requests do not count: they are slow."""
    turn = request.turn
    shared = 0
    for active in running:
        is_slow = active.is_background and not request.background
        is_same = turn.scope is not None and active.seat.request.turn.scope == turn.scope
        if active.is_reading and is_same and not is_slow:
            shared = max(shared, count_common(active.decoder.input.prompt, [*turn.prompt]))
    return shared
