"""Chooses the replica for a request: the one that has computed most of its prompt, unless it is
overloaded.

    longest known prefix -> else rendezvous hashing of the prompt's first block
    a replica that is overloaded for its own capacity loses the request to the next one

A replica is overloaded if waiting for it takes longer than the extra computing at the next one.
Both are counted in blocks of prompt tokens: those that the replica has to compute before this
request, and those of the request that it does not have. The load is compared replica by replica,
because a low average load does not help a request that waits at a busy replica.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count

import numpy as np

from server.cluster.prefix_index import DEFAULT_MAX_BYTES, PrefixIndex

REPLY = 8.0
"""How many blocks of a prompt are computed in the time of a reply, roughly."""
RECOMPUTED = 1.5
"""The cost of computing a block again, relative to waiting for one. It is above 1 because the next
requests wait, too, and because the block overwrites cached ones."""
STRANGE = 4.0
"""How many blocks longer an unknown prompt may wait at the replica of its hash than at the least
busy one: later prompts with the same beginning will go there."""
_SPREAD = 2.0**64


@dataclass(frozen=True)
class ReplicaReport:
    """A replica's report of its load: its running and waiting requests, from all fronts, and how
    many it decodes at a time; the blocks of prompts that it has yet to compute; and the hashes of
    the prefixes that it has computed last, prompt by prompt."""

    requests: int
    slots: int
    unread: int = 0
    prefixes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class RouteChoice:
    """A replica that may answer a request; how many blocks of the prompt, from the first, it is
    known to have, and how many it would have to compute."""

    name: str
    known: int
    unknown: int


@dataclass(eq=False)
class RoutedRequest:
    """A request that was sent to a replica: the blocks that the replica has yet to compute, and
    those of its prompt."""

    choice: RouteChoice
    unread: int
    blocks: int
    is_over: bool = field(default=False, init=False)


@dataclass(eq=False)
class _Replica:
    """The known state of one replica. Its last report includes the requests of this router (`own`),
    except those that were still on their way."""

    name: str
    number: int
    slots: int
    requests: int = 0
    unread: int = 0
    own: int = 0
    own_unread: int = 0

    @property
    def wait(self) -> float:
        """The waiting time of a new request, in blocks that are computed in that time."""
        too_many = max(0, self.requests + 1 - self.slots)
        return self.unread + REPLY * too_many / self.slots


@dataclass(frozen=True)
class _Candidate:
    choice: RouteChoice
    replica: _Replica
    cost: float


class PrefixRouter:
    """Chooses replicas for requests. For one thread."""

    def __init__(self, index: PrefixIndex | None = None):
        self.index = index or PrefixIndex(DEFAULT_MAX_BYTES)
        self._numbers: dict[str, int] = {}
        self._replicas: dict[int, _Replica] = {}
        """By number. A number is never used again, so the prefixes of a dead replica are not taken
        for those of a new one."""
        self._next_number = count()
        self._order: list[_Replica] = []  # in the order of the arrays
        self._place_of: dict[int, int] = {}
        self._seeds = np.empty(0, np.uint64)
        self._weights = np.empty(0)
        self._waits = np.empty(0)

    @property
    def names(self) -> Collection[str]:
        """The names of replicas that may get requests."""
        return [replica.name for replica in self._order]

    def add(self, name: str, slots: int = 1) -> None:
        """Adds a replica that decodes `slots` requests together; a known one keeps its state."""
        if slots < 1:
            raise ValueError(f"{name} has {slots} slots, must be 1 or more")
        if name in self._numbers:
            self._replicas[self._numbers[name]].slots = slots
        else:
            number = next(self._next_number)
            self._numbers[name] = number
            self._replicas[number] = _Replica(name, number, slots)
        self._arrange()

    def remove(self, name: str) -> None:
        number = self._numbers.pop(name, None)
        if number is not None:
            del self._replicas[number]
            self._arrange()

    def report(self, name: str, report: ReplicaReport) -> None:
        """Takes a replica's report; adds the replica if it is not known."""
        number = self._numbers.get(name)
        if number is None or self._replicas[number].slots != report.slots:
            self.add(name, report.slots)
        replica = self._replicas[self._numbers[name]]
        # Requests of this router count until they are finished, even if the report lacks them: they
        # may have been on their way.
        replica.requests = max(report.requests, replica.own)
        replica.unread = max(report.unread, replica.own_unread)
        self._note_wait(replica)
        for names in report.prefixes:
            self.index.note_names(replica.number, names)

    def rank(
        self, chain: Sequence[int], *, among: Collection[str] | None = None
    ) -> Iterator[RouteChoice]:
        """Yields the replicas for a request, best first. The hash chain of its prompt is empty if
        that is too short or may not be shared."""

        def may_ask(replica: _Replica) -> bool:
            return among is None or replica.name in among

        found = [*self._find_holders(chain, may_ask), *self._find_others(chain, may_ask)]
        named = set[int]()
        # Of equally cheap ones, the one with the longest prefix comes first.
        for candidate in sorted(found, key=lambda candidate: candidate.cost):
            if candidate.replica.number not in named:
                named.add(candidate.replica.number)
                yield candidate.choice
        for place in np.argsort(self._waits, kind="stable"):
            replica = self._order[place]
            if replica.number not in named and may_ask(replica):
                yield RouteChoice(replica.name, 0, len(chain))

    def _find_holders(
        self, chain: Sequence[int], may_ask: Callable[[_Replica], bool]
    ) -> Iterator[_Candidate]:
        seen = set[int]()
        for known, numbers in self.index.find(chain):
            unknown = len(chain) - known
            for number in reversed(numbers):
                replica = self._replicas.get(number)
                if replica is None or number in seen:
                    continue
                seen.add(number)
                if may_ask(replica):
                    choice = RouteChoice(replica.name, known, unknown)
                    yield _Candidate(choice, replica, RECOMPUTED * unknown + replica.wait)

    def _find_others(
        self, chain: Sequence[int], may_ask: Callable[[_Replica], bool]
    ) -> list[_Candidate]:
        """Returns the replica of the prompt's hash and the least busy one, as if they had no
        prefix.

        Prompts with the same beginning go to the same replica from every front, and if a replica
        ends, only its own prompts move (rendezvous hashing, weighted by slots).
        """
        allowed = np.array([may_ask(replica) for replica in self._order], bool)
        if not allowed.any():
            return []
        places: list[tuple[int, float]] = []
        if chain:
            mixed = _mix(self._seeds ^ np.uint64(chain[0]))
            scores = -np.log((mixed.astype(float) + 0.5) / _SPREAD) / self._weights
            places.append((int(np.argmin(np.where(allowed, scores, np.inf))), 0.0))
        places.append((int(np.argmin(np.where(allowed, self._waits, np.inf))), STRANGE))
        found: list[_Candidate] = []
        for place, extra in places:
            replica = self._order[place]
            choice = RouteChoice(replica.name, 0, len(chain))
            cost = RECOMPUTED * len(chain) + replica.wait + extra
            found.append(_Candidate(choice, replica, cost))
        return found

    def measure(self, name: str, chain: Sequence[int]) -> RouteChoice:
        """Returns how much of a prompt a replica has, even if it is a bad choice."""
        number = self._numbers.get(name)
        for known, numbers in self.index.find(chain):
            if number in numbers:
                return RouteChoice(name, known, len(chain) - known)
        return RouteChoice(name, 0, len(chain))

    def start(self, choice: RouteChoice, chain: Sequence[int]) -> RoutedRequest:
        replica = self._find(choice.name)
        if replica is not None:
            replica.requests += 1
            replica.own += 1
            replica.unread += choice.unknown
            replica.own_unread += choice.unknown
            self._note_wait(replica)
            self.index.note(replica.number, chain, choice.known)
        return RoutedRequest(choice, choice.unknown, len(chain))

    def note_read(self, routed: RoutedRequest) -> None:
        """Notes that the replica has computed the prompt, so the reply has begun. A second call
        does nothing."""
        unread, routed.unread = routed.unread, 0
        replica = self._find(routed.choice.name)
        if replica is not None and unread:
            replica.unread = max(0, replica.unread - unread)
            replica.own_unread = max(0, replica.own_unread - unread)
            self._note_wait(replica)

    def finish(self, routed: RoutedRequest, chain: Sequence[int] = ()) -> None:
        """Notes that a request has ended, in any way; a second call does nothing. The hash chain is
        that of the prompt and the generated tokens, if known."""
        if routed.is_over:
            return
        self.note_read(routed)
        routed.is_over = True
        replica = self._find(routed.choice.name)
        if replica is not None:
            replica.own = max(0, replica.own - 1)
            replica.requests = max(replica.own, replica.requests - 1)
            self._note_wait(replica)
            self.index.note(replica.number, chain, min(routed.blocks, len(chain)))

    def _find(self, name: str) -> _Replica | None:
        number = self._numbers.get(name)
        return None if number is None else self._replicas[number]

    def _note_wait(self, replica: _Replica) -> None:
        place = self._place_of.get(replica.number)
        if place is not None:
            self._waits[place] = replica.wait + replica.requests / replica.slots

    def _arrange(self) -> None:
        self._order = [*self._replicas.values()]
        self._place_of = {replica.number: place for place, replica in enumerate(self._order)}
        self._seeds = np.array([_seed(replica.name) for replica in self._order], np.uint64)
        self._weights = np.array([replica.slots for replica in self._order], float)
        self._waits = np.zeros(len(self._order))
        for replica in self._order:
            self._note_wait(replica)


def _seed(name: str) -> int:
    """Returns a hash of a name that is the same in every process, unlike Python's own."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _mix(values: np.ndarray) -> np.ndarray:
    """Mixes the bits of numbers: each bit of a result depends on all bits (the finalizer of
    splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
