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


def count_being_read(request: Request, running: Iterable[ActiveTurn]) -> int:
    """Returns how many tokens of its prompt other requests of the same scope are reading."""
    turn = request.turn
    shared = 0
    for active in running:
        is_same = turn.scope is not None and active.seat.request.turn.scope == turn.scope
        if active.is_reading and is_same:
            shared = max(shared, count_common(active.decoder.input.prompt, [*turn.prompt]))
    return shared
