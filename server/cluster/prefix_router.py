"""Which replica answers a request: the one that has computed most of its prompt, unless it is busy.

    longest known prefix -> else rendezvous hashing of the prompt's first block
    a replica that is overloaded for its own capacity loses the request to the next one

The load is judged replica by replica, not over the fleet: a fleet that is idle on average does not
help whoever waits at the one busy replica.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count

import numpy as np

from server.cluster.prefix_index import DEFAULT_ROOM, PrefixIndex

PATIENCE = 1.25
"""Requests for each sequence of a replica that has a part of the prompt, before another one gets
the next request: to wait for a quarter of them costs less than to compute a long prompt again."""
_SPREAD = 2.0**64


@dataclass(frozen=True)
class ReplicaReport:
    """What a replica tells of itself.

    Args:
        requests: those that it has, decoded or waiting, from whatever front.
        slots: how many it decodes together.
        prefixes: chains of prompts that it has computed lately.
        kv_used: share of its KV cache that holds tokens, 0 to 1.
    """

    requests: int
    slots: int
    prefixes: tuple[tuple[int, ...], ...] = ()
    kv_used: float = 0.0


@dataclass(frozen=True)
class RouteChoice:
    """A replica that may answer a request.

    Args:
        name: of the replica.
        blocks: how many first blocks of the prompt it has, as far as is known.
    """

    name: str
    blocks: int = 0


class _Replica:
    """What is known of one replica; `requests` are those that it has, `own` those of this router
    among them."""

    def __init__(self, name: str, slots: int):
        self.name = name
        self.slots = slots
        self.requests = 0
        self.own = 0

    @property
    def load(self) -> float:
        return self.requests / self.slots


class PrefixRouter:
    """Chooses replicas for requests. For one thread.

    Args:
        index: of prefixes; None: a new one.
        patience: see `PATIENCE`.
    """

    def __init__(self, index: PrefixIndex | None = None, *, patience: float = PATIENCE):
        self.index = index or PrefixIndex(DEFAULT_ROOM)
        self._patience = patience
        self._numbers: dict[str, int] = {}
        self._replicas: dict[int, _Replica] = {}
        """By numbers, which are given once: what is known of the dead stays theirs."""
        self._draining = set[str]()
        self._next_number = count()
        self._seeds = np.empty(0, np.uint64)
        self._weights = np.empty(0)
        self._order: list[_Replica] = []  # of the two arrays

    @property
    def names(self) -> Collection[str]:
        """The replicas that may get requests."""
        return [replica.name for replica in self._order]

    def add(self, name: str, slots: int = 1) -> None:
        """There is a replica of this name; one that is known already keeps what is known of it.

        Args:
            slots: how many requests it decodes together.
        """
        if slots < 1:
            raise ValueError(f"{name} has {slots} slots, must be 1 or more")
        if name in self._numbers:
            self._replicas[self._numbers[name]].slots = slots
        else:
            number = next(self._next_number)
            self._numbers[name] = number
            self._replicas[number] = _Replica(name, slots)
        self._arrange()

    def remove(self, name: str) -> None:
        """The replica is dead: it gets no request, and what it had computed is gone."""
        number = self._numbers.pop(name, None)
        self._draining.discard(name)
        if number is not None:
            del self._replicas[number]
            self._arrange()

    def drain(self, name: str) -> None:
        """The replica is about to end: it gets no new request."""
        if name in self._numbers:
            self._draining.add(name)
            self._arrange()

    def report(self, name: str, report: ReplicaReport) -> None:
        """A replica has told of itself; one that is not known yet is from then on."""
        self.add(name, report.slots)
        number = self._numbers[name]
        replica = self._replicas[number]
        # What this router has sent and not seen the end of is there, whatever the report says: it
        # may have been on its way.
        replica.requests = max(report.requests, replica.own)
        for chain in report.prefixes:
            self.index.note(number, chain)

    def choose(
        self, chain: Sequence[int], *, among: Collection[str] | None = None
    ) -> RouteChoice | None:
        """The replica that is to answer a request; None if there is none."""
        return next(self.rank(chain, among=among), None)

    def rank(
        self, chain: Sequence[int], *, among: Collection[str] | None = None
    ) -> Iterator[RouteChoice]:
        """The replicas, the one that is to answer a request first.

        Args:
            chain: that of the prompt, see `chain_prefixes`; empty: of a prompt that is too short,
                or that nobody may share.
            among: only these; None: all.
        """

        def may_have(replica: _Replica) -> bool:
            return among is None or replica.name in among

        busy: list[RouteChoice] = []
        seen = set[str]()
        for choice, replica in self._rank_holders(chain, may_have):
            seen.add(choice.name)
            if replica.requests >= self._patience * replica.slots:
                busy.append(choice)
            else:
                yield choice
        others = [busy]
        for replica in self._rank_others(chain):
            if replica.name in seen or not may_have(replica):
                continue
            if replica.requests >= replica.slots:
                others.append([RouteChoice(replica.name)])
            else:
                yield RouteChoice(replica.name)
        yield from sorted((one for some in others for one in some), key=self._find_load)

    def _rank_holders(
        self, chain: Sequence[int], may_have: Callable[[_Replica], bool]
    ) -> Iterator[tuple[RouteChoice, _Replica]]:
        """Those that have a prefix, the longest first; of the same length, the least busy."""
        seen = set[int]()
        for blocks, numbers in self.index.find(chain):
            holders: list[_Replica] = []
            for number in numbers:
                replica = self._replicas.get(number)
                if number in seen or replica is None:
                    continue
                seen.add(number)
                if replica.name not in self._draining and may_have(replica):
                    holders.append(replica)
            holders.sort(key=lambda replica: replica.load)
            for replica in holders:
                yield RouteChoice(replica.name, blocks), replica

    def _rank_others(self, chain: Sequence[int]) -> Iterator[_Replica]:
        """All, by rendezvous hashing, each with the weight of its slots: prompts that begin alike
        meet at the same replica, whichever front they come through, and where one replica ends, its
        prompts alone move. Where nothing can be shared, the least busy first."""
        if not chain:
            yield from sorted(self._order, key=lambda replica: replica.load)
            return
        uniform = (_mix(self._seeds ^ np.uint64(chain[0])).astype(float) + 0.5) / _SPREAD
        for place in np.argsort(-np.log(uniform) / self._weights):
            yield self._order[place]

    def start(self, name: str, chain: Sequence[int]) -> None:
        """A request goes to a replica."""
        number = self._numbers.get(name)
        if number is None:
            return
        self._replicas[number].requests += 1
        self._replicas[number].own += 1
        self.index.note(number, chain)

    def finish(self, name: str, chain: Sequence[int] = ()) -> None:
        """A request is over, however it ended.

        Args:
            chain: of the prompt and what was generated behind it, if that is known.
        """
        number = self._numbers.get(name)
        if number is None:
            return
        replica = self._replicas[number]
        replica.own = max(0, replica.own - 1)
        replica.requests = max(replica.own, replica.requests - 1)
        self.index.note(number, chain)

    def _find_load(self, choice: RouteChoice) -> float:
        return self._replicas[self._numbers[choice.name]].load

    def _arrange(self) -> None:
        """Notes who may get requests."""
        self._order = [
            replica for replica in self._replicas.values() if replica.name not in self._draining
        ]
        names = np.array([_seed(replica.name) for replica in self._order], np.uint64)
        self._seeds = names
        self._weights = np.array([replica.slots for replica in self._order], float)


def _seed(name: str) -> int:
    """A number for a name: the same in every process, which Python's own hash is not."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _mix(values: np.ndarray) -> np.ndarray:
    """Numbers whose bits depend on all bits of these (the end of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
