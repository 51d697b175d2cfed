"""The order in which waiting requests are admitted to an engine."""

from collections import Counter
from collections.abc import Container, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from constrained.decode.request import Generation, PassingOwner, Request
from constrained.limits.deadline import Clock

AWAITED = 600.0
"""For so many seconds after its last request, a sequence is kept for an owner."""


def _make_future() -> Future[Generation]:
    future = Future[Generation]()
    future.set_running_or_notify_cancel()  # not cancellable: `is_wanted` ends a request
    return future


@dataclass(eq=False)
class Seat:
    """A request and the future of its generation.

    Args:
        arrival: how many requests had been admitted when this one began to wait.
    """

    request: Request
    result: Future[Generation] = field(default_factory=_make_future)
    arrival: int = 0

    @property
    def owner(self) -> Hashable:
        """Whose request it is; a request without an owner counts as an owner of its own."""
        return id(self) if self.request.owner is None else self.request.owner

    def finish(self, generation: Generation) -> None:
        """Gives the caller the result, unless the request has failed."""
        if not self.result.done():
            self.result.set_result(generation)

    def fail(self, error: Exception) -> None:
        """Gives the caller an error, unless there is a result."""
        if not self.result.done():
            self.result.set_exception(error)


class AdmissionOrder:
    """The order in which waiting requests are admitted, fair between their owners.

    First come requests of the owner with the fewest running requests, then of the owner whose last
    admission or arrival is the oldest; equal ones keep their order.

    One owner cannot hold all sequences while others come and go: if an owner was seen within the
    last `AWAITED` seconds and has no running request, the last idle sequence is only for owners
    without a running request. A single owner may use all sequences.
    """

    def __init__(self, sequences: int, clock: Clock) -> None:
        self._sequences = sequences
        self._clock = clock
        self._admissions = 0
        self._admitted: dict[Hashable, int] = {}  # the last admission of each owner
        self._seen: dict[Hashable, float] = {}  # when; the owner seen last is the last one

    def note_arrival(self, seat: Seat) -> None:
        """Notes that a request begins to wait."""
        seat.arrival = self._admissions
        self._note_owner(seat)

    def note_admission(self, seat: Seat, waiting: Iterable[Seat]) -> None:
        """Notes that a request was admitted."""
        self._admissions += 1
        owners = {other.owner for other in waiting}
        # Owners without waiting requests are forgotten: their next request is an arrival.
        kept = {owner: last for owner, last in self._admitted.items() if owner in owners}
        self._admitted = {**kept, seat.owner: self._admissions}

    def note_end(self, seat: Seat) -> None:
        """Notes that an admitted request does not run any longer."""
        self._note_owner(seat)

    def sort(self, waiting: Iterable[Seat], running: Iterable[Seat]) -> list[Seat]:
        """Sorts the waiting requests that may be admitted now, the next one to admit first.

        Args:
            waiting: requests in the order of their arrival.
        """
        under_way = Counter(seat.owner for seat in running)

        def rank(seat: Seat) -> tuple[int, int]:
            # A new owner comes after those who were admitted before it arrived and wait again.
            last = max(self._admitted.get(seat.owner, 0), seat.arrival)
            return under_way[seat.owner], last

        is_last = 1 < self._sequences == under_way.total() + 1
        if is_last and self._awaits_other(under_way):
            waiting = [seat for seat in waiting if seat.owner not in under_way]
        return sorted(waiting, key=rank)  # the sort is stable

    def _note_owner(self, seat: Seat) -> None:
        owner = seat.request.owner
        if owner is None or isinstance(owner, PassingOwner):
            return  # it does not come back
        self._seen.pop(owner, None)
        self._seen[owner] = self._clock()
        # Fewer owners than there are sequences have a running request when the last sequence is
        # given away, so one of those that are kept has none.
        if len(self._seen) > self._sequences:
            del self._seen[next(iter(self._seen))]

    def _awaits_other(self, under_way: Container[Hashable]) -> bool:
        """True if an owner without a running request was seen not long ago."""
        start = self._clock() - AWAITED
        return any(seen > start and owner not in under_way for owner, seen in self._seen.items())
