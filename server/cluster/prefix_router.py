"""Which replica answers a request: the one that has computed most of its prompt, unless it is busy.

    longest known prefix -> else rendezvous hashing of the prompt's first block
    a replica that is overloaded for its own capacity loses the request to the next one

A replica is overloaded where the wait for it is longer than what the next one would have to compute
more. Both are counted in blocks of a prompt: those that the replica has to read before it comes to
this request, and those of the request that it does not have. The load is judged replica by replica,
not over the fleet: that the fleet is idle on average does not help whoever waits at the one that is
busy.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count

import numpy as np

from server.cluster.prefix_index import DEFAULT_ROOM, PrefixIndex

REPLY = 8.0
"""Blocks of a prompt that are computed in the time of a reply, about."""
RECOMPUTED = 1.5
"""To compute a block again counts so many times as much as to wait for one: it keeps the next
requests waiting, too, and takes the place of what others have computed."""
STRANGE = 4.0
"""Blocks that a prompt which nobody knows may wait more at the replica of its hash than at the
least busy one: what begins like it will be asked there."""
_SPREAD = 2.0**64


@dataclass(frozen=True)
class ReplicaReport:
    """What a replica tells of itself.

    Args:
        requests: those that it has, decoded or waiting, from whatever front.
        slots: how many it decodes together.
        unread: blocks of prompts that it has yet to compute.
        prefixes: names of prefixes that it has computed lately, prompt by prompt.
    """

    requests: int
    slots: int
    unread: int = 0
    prefixes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class RouteChoice:
    """A replica that may answer a request.

    Args:
        name: of the replica.
        known: how many first blocks of the prompt it has, as far as is known.
        unknown: how many it would have to compute.
    """

    name: str
    known: int
    unknown: int


@dataclass(eq=False)
class RoutedRequest:
    """A request that has gone to a replica.

    Args:
        choice: the replica.
        unread: blocks that it has yet to compute.
        blocks: those of its prompt.
    """

    choice: RouteChoice
    unread: int
    blocks: int
    is_over: bool = field(default=False, init=False)


@dataclass(eq=False)
class _Replica:
    """What is known of one replica. What it has told of itself includes the requests of this
    router (`own`), but for those that were on their way then."""

    name: str
    number: int
    slots: int
    requests: int = 0
    unread: int = 0
    own: int = 0
    own_unread: int = 0
    is_draining: bool = False

    @property
    def wait(self) -> float:
        """Blocks that are computed in the time that a request waits here."""
        too_many = max(0, self.requests + 1 - self.slots)
        return self.unread + REPLY * too_many / self.slots


@dataclass(frozen=True)
class _Candidate:
    """A replica that may answer a request, and what that costs, in blocks that are computed."""

    choice: RouteChoice
    replica: _Replica
    cost: float


class PrefixRouter:
    """Chooses replicas for requests. For one thread.

    Args:
        index: of prefixes; None: a new one.
    """

    def __init__(self, index: PrefixIndex | None = None):
        self.index = index or PrefixIndex(DEFAULT_ROOM)
        self._numbers: dict[str, int] = {}
        self._replicas: dict[int, _Replica] = {}
        """By numbers, which are given once: what is known of the dead stays theirs."""
        self._next_number = count()
        self._order: list[_Replica] = []  # of the arrays
        self._place_of: dict[int, int] = {}
        self._seeds = np.empty(0, np.uint64)
        self._weights = np.empty(0)
        self._waits = np.empty(0)

    @property
    def names(self) -> Collection[str]:
        """The replicas that may get requests."""
        return [replica.name for replica in self._order]

    def add(self, name: str, slots: int = 1) -> None:
        """There is a replica of this name; one that is known already keeps what is known of it.

        Args:
            slots: how many requests it decodes together.
        """
        self.add_all({name: slots})

    def add_all(self, slots: Mapping[str, int]) -> None:
        """There are replicas of these names, with so many slots each; see `add`."""
        for name, number_of_slots in slots.items():
            if number_of_slots < 1:
                raise ValueError(f"{name} has {number_of_slots} slots, must be 1 or more")
            if name in self._numbers:
                self._replicas[self._numbers[name]].slots = number_of_slots
            else:
                number = next(self._next_number)
                self._numbers[name] = number
                self._replicas[number] = _Replica(name, number, number_of_slots)
        self._arrange()

    def remove(self, name: str) -> None:
        """The replica is dead: it gets no request, and what it had computed is gone."""
        number = self._numbers.pop(name, None)
        if number is not None:
            del self._replicas[number]
            self._arrange()

    def drain(self, name: str) -> None:
        """The replica is about to end: it gets no new request."""
        number = self._numbers.get(name)
        if number is not None:
            self._replicas[number].is_draining = True
            self._arrange()

    def report(self, name: str, report: ReplicaReport) -> None:
        """A replica has told of itself; one that is not known yet is from then on."""
        number = self._numbers.get(name)
        if number is None or self._replicas[number].slots != report.slots:
            self.add(name, report.slots)
        replica = self._replicas[self._numbers[name]]
        # What this router has sent and not seen the end of is there, whatever the report says: it
        # may have been on its way.
        replica.requests = max(report.requests, replica.own)
        replica.unread = max(report.unread, replica.own_unread)
        self._note_wait(replica)
        for names in report.prefixes:
            self.index.note_names(replica.number, names)

    def choose(
        self, chain: Sequence[int], *, among: Collection[str] | None = None
    ) -> RouteChoice | None:
        """The replica that is to answer a request, the first of `rank`; None if there is none."""
        preferred = self._find_preferred(chain, among, finds_best=True)
        return preferred[0].choice if preferred else None

    def rank(
        self, chain: Sequence[int], *, among: Collection[str] | None = None
    ) -> Iterator[RouteChoice]:
        """The replicas, the one that is to answer a request first.

        Args:
            chain: that of the prompt, see `chain_prefixes`; empty: of a prompt that is too short,
                or that nobody may share.
            among: only these; None: all.
        """
        named = set[int]()
        for candidate in self._find_preferred(chain, among, finds_best=False):
            if candidate.replica.number not in named:
                named.add(candidate.replica.number)
                yield candidate.choice
        for place in np.argsort(self._waits, kind="stable"):
            replica = self._order[place]
            if replica.number not in named and (among is None or replica.name in among):
                yield RouteChoice(replica.name, 0, len(chain))

    def _find_preferred(
        self, chain: Sequence[int], among: Collection[str] | None, *, finds_best: bool
    ) -> list[_Candidate]:
        """The replicas that there is a reason to ask, the cheapest first; of equal ones, that with
        the longest prefix.

        Args:
            finds_best: only the first of them matters.
        """

        def may_ask(replica: _Replica) -> bool:
            return not replica.is_draining and (among is None or replica.name in among)

        found = self._find_holders(chain, may_ask, finds_best=finds_best)
        cheapest = min((candidate.cost for candidate in found), default=np.inf)
        if not finds_best or cheapest > RECOMPUTED * len(chain):
            found += self._find_others(chain, may_ask)
        return sorted(found, key=lambda candidate: candidate.cost)

    def _find_holders(
        self, chain: Sequence[int], may_ask: Callable[[_Replica], bool], *, finds_best: bool
    ) -> list[_Candidate]:
        """Those that have a prefix, the longest first."""
        found: list[_Candidate] = []
        seen = set[int]()
        cheapest = np.inf
        for known, numbers in self.index.find(chain):
            unknown = len(chain) - known
            if finds_best and RECOMPUTED * unknown > cheapest:
                break
            for number in reversed(numbers):
                replica = self._replicas.get(number)
                if replica is None or number in seen:
                    continue
                seen.add(number)
                if may_ask(replica):
                    cost = RECOMPUTED * unknown + replica.wait
                    cheapest = min(cheapest, cost)
                    choice = RouteChoice(replica.name, known, unknown)
                    found.append(_Candidate(choice, replica, cost))
        return found

    def _find_others(
        self, chain: Sequence[int], may_ask: Callable[[_Replica], bool]
    ) -> list[_Candidate]:
        """The replica of the prompt's hash, and the least busy one, as if they had no prefix.

        Prompts that begin alike meet at the replica of their hash, whichever front they come
        through, and where one replica ends, its prompts alone move (rendezvous hashing, by the
        slots of the replicas).
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
        """What a replica has of a prompt, whether it is a good choice or not."""
        number = self._numbers.get(name)
        for known, numbers in self.index.find(chain):
            if number in numbers:
                return RouteChoice(name, known, len(chain) - known)
        return RouteChoice(name, 0, len(chain))

    def start(self, choice: RouteChoice, chain: Sequence[int]) -> RoutedRequest:
        """A request goes to a replica."""
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
        """The replica has computed the prompt: the reply has begun. A second time does nothing."""
        unread, routed.unread = routed.unread, 0
        replica = self._find(routed.choice.name)
        if replica is not None and unread:
            replica.unread = max(0, replica.unread - unread)
            replica.own_unread = max(0, replica.own_unread - unread)
            self._note_wait(replica)

    def finish(self, routed: RoutedRequest, chain: Sequence[int] = ()) -> None:
        """A request is over, however it ended. A second time does nothing.

        Args:
            chain: of the prompt and what was generated after it, if that is known.
        """
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
        """Notes who may get requests."""
        self._order = [replica for replica in self._replicas.values() if not replica.is_draining]
        self._place_of = {replica.number: place for place, replica in enumerate(self._order)}
        self._seeds = np.array([_seed(replica.name) for replica in self._order], np.uint64)
        self._weights = np.array([replica.slots for replica in self._order], float)
        self._waits = np.zeros(len(self._order))
        for replica in self._order:
            self._note_wait(replica)


def _seed(name: str) -> int:
    """A number for a name: the same in every process, which Python's own hash is not."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _mix(values: np.ndarray) -> np.ndarray:
    """Numbers whose bits depend on all bits of these (the end of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
