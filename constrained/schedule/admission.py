"""The order in which waiting requests are admitted to an engine."""

from collections import Counter
from collections.abc import Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from constrained.decode.request import Generation, Request


def _make_future() -> Future[Generation]:
    future = Future[Generation]()
    future.set_running_or_notify_cancel()  # not cancellable: `is_wanted` ends a request
    return future


@dataclass(eq=False)
class Seat:
    """A request and the future of its generation.

    Args:
        request: what to generate.
        result: gets the generation, or the error.
        arrival: how many requests had been admitted when this one began to wait.
    """

    request: Request
    result: Future[Generation] = field(default_factory=_make_future)
    arrival: int = 0

    @property
    def owner(self) -> Hashable:
        """Whose request it is; a request without an owner counts as an owner of its own."""
        return id(self) if self.request.owner is None else self.request.owner


class AdmissionOrder:
    """The order in which waiting requests are admitted, fair between their owners.

    First come requests of the owner with the fewest running requests, then of the owner whose last
    admission or arrival is the oldest; equal ones keep their order. Background requests come last.
    """

    def __init__(self) -> None:
        self._admissions = 0
        self._admitted: dict[Hashable, int] = {}  # the last admission of each owner

    def note_arrival(self, seat: Seat) -> None:
        """Notes that a request begins to wait."""
        seat.arrival = self._admissions

    def note_admission(self, seat: Seat, waiting: Iterable[Seat]) -> None:
        """Notes that a request was admitted.

        Args:
            seat: the request.
            waiting: the requests that still wait.
        """
        self._admissions += 1
        owners = {other.owner for other in waiting}
        # Owners without waiting requests are forgotten: their next request is an arrival.
        kept = {owner: last for owner, last in self._admitted.items() if owner in owners}
        self._admitted = {**kept, seat.owner: self._admissions}

    def sort(self, waiting: Iterable[Seat], running: Iterable[Seat]) -> list[Seat]:
        """Sorts the waiting requests, the next one to admit first.

        Args:
            waiting: requests in the order of their arrival.
            running: requests that are admitted.
        """
        under_way = Counter(seat.owner for seat in running)

        def rank(seat: Seat) -> tuple[bool, int, int]:
            # A new owner comes after those who were admitted before it arrived and wait again.
            last = max(self._admitted.get(seat.owner, 0), seat.arrival)
            return seat.request.background, under_way[seat.owner], last

        return sorted(waiting, key=rank)  # the sort is stable
