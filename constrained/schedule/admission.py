"""Who is admitted next, of the requests that wait for an engine."""

from collections import Counter
from collections.abc import Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from constrained.decode.request import Generation, Request


def _make_future() -> Future[Generation]:
    future = Future[Generation]()
    future.set_running_or_notify_cancel()  # the way to end a request is its `is_wanted`
    return future


@dataclass(eq=False)
class Seat:
    """A request, and the generation that is to come of it.

    Args:
        request: what is asked for.
        result: what comes of it.
        arrival: how many requests had been admitted when it began to wait.
    """

    request: Request
    result: Future[Generation] = field(default_factory=_make_future)
    arrival: int = 0

    @property
    def owner(self) -> Hashable:
        """Who asks; a request of nobody's is an owner by itself."""
        return id(self) if self.request.owner is None else self.request.owner


class AdmissionOrder:
    """The order in which waiting requests are admitted: those of the owner who has the fewest under
    way, then of the one who was admitted, or came, longest ago, then in their order. Requests in
    the background are behind all others."""

    def __init__(self) -> None:
        self._admissions = 0
        self._admitted: dict[Hashable, int] = {}  # the last admission of each owner

    def note_arrival(self, seat: Seat) -> None:
        """A request begins to wait."""
        seat.arrival = self._admissions

    def note_admission(self, seat: Seat, waiting: Iterable[Seat]) -> None:
        """A request was admitted; these still wait."""
        self._admissions += 1
        owners = {other.owner for other in waiting}
        # Who has nothing more to wait for begins anew.
        kept = {owner: last for owner, last in self._admitted.items() if owner in owners}
        self._admitted = {**kept, seat.owner: self._admissions}

    def sort(self, waiting: Iterable[Seat], running: Iterable[Seat]) -> list[Seat]:
        """Those that wait, the next one first."""
        under_way = Counter(seat.owner for seat in running)

        def rank(seat: Seat) -> tuple[bool, int, int]:
            # Who comes anew stands behind those who were admitted before and wait since.
            last = max(self._admitted.get(seat.owner, 0), seat.arrival)
            return seat.request.background, under_way[seat.owner], last

        return sorted(waiting, key=rank)  # a stable sort: equal ones keep their order
