"""Ways to route: ours, and those that it is compared with.

A prompt is known to a policy by the names of its blocks. In the simulation these are numbers: what
counts is which prompts have which in common.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from server.cluster.prefix_chain import BLOCK
from server.cluster.prefix_index import DEFAULT_MAX_BYTES, PrefixIndex
from server.cluster.prefix_router import PrefixRouter, RoutedRequest

Chain = Sequence[int]
IMBALANCED = 10
"""Difference between the longest and the shortest queue from which on Ray's router forgets about
prefixes; its default is none, and its documentation advises to set one."""
MATCHED = 0.1
"""Share of a prompt that has to match in Ray's router (`match_rate_threshold`)."""
CHARACTERS = 4
"""Of a token, about."""
EVICTED, KEPT = 400_000 // (CHARACTERS * BLOCK), 360_000 // (CHARACTERS * BLOCK)
"""Blocks of a replica above which Ray's tree forgets, and down to which."""


class Policy(Protocol):
    """Chooses a replica, by number, for each request."""

    name: str

    def choose(self, conversation: int, chain: Chain, unseen: int) -> int:
        """Returns the replica for a request.

        Args:
            conversation: its number.
            chain: names of the blocks of its prompt.
            unseen: how many first ones a router that reads messages does not see: the tools.
        """
        ...

    def note_read(self, conversation: int) -> None:
        """The replica has computed the prompt of a conversation."""
        ...

    def finish(self, conversation: int, chain: Chain) -> None:
        """Its request is over; the chain is that of prompt and reply."""
        ...

    def remove(self, replica: int) -> None:
        """A replica is dead."""
        ...


class _Counting:
    """Replicas that are alive, and how many requests each has."""

    def __init__(self, replicas: int, random: np.random.Generator):
        self._random = random
        self._alive = list(range(replicas))
        self._requests = np.zeros(replicas)
        self._of: dict[int, int] = {}  # the replicas of the conversations that wait for a reply

    def note_read(self, conversation: int) -> None:
        pass

    def finish(self, conversation: int, chain: Chain) -> None:
        self._requests[self._of.pop(conversation)] -= 1

    def remove(self, replica: int) -> None:
        self._alive.remove(replica)
        self._requests[replica] = np.inf

    def _take(self, conversation: int, replica: int) -> int:
        self._requests[replica] += 1
        self._of[conversation] = replica
        return replica

    def _draw(self) -> int:
        return self._alive[int(self._random.random() * len(self._alive))]

    def _choose_less_busy(self) -> int:
        """Chooses by the power of two choices, which is Ray Serve's default."""
        one, other = self._draw(), self._draw()
        return one if self._requests[one] <= self._requests[other] else other


class RandomChoice(_Counting):
    """Any replica."""

    name = "random"

    def choose(self, conversation: int, chain: Chain, unseen: int) -> int:
        return self._take(conversation, self._draw())


class RoundRobin(_Counting):
    """One replica after the other."""

    name = "round robin"
    _next = 0

    def choose(self, conversation: int, chain: Chain, unseen: int) -> int:
        self._next += 1
        return self._take(conversation, self._alive[self._next % len(self._alive)])


class LeastLoaded(_Counting):
    """The replica with the fewest requests, of all; of several, any."""

    name = "least loaded"

    def choose(self, conversation: int, chain: Chain, unseen: int) -> int:
        fewest = np.flatnonzero(self._requests == self._requests.min())
        return self._take(conversation, int(fewest[int(self._random.random() * len(fewest))]))


class PrefixTree(_Counting):
    """Ray's PrefixCacheAffinityRouter: an approximate radix tree over the text of the messages.

    Where queues are balanced, of the replicas that have the longest match the one with the shortest
    queue; where less than a tenth matches, the replica with the least text. It does not see tools.
    Its eviction is on, with the thresholds that it has.
    """

    name = "Ray's prefix tree"

    def __init__(self, replicas: int, random: np.random.Generator, imbalanced: float = np.inf):
        super().__init__(replicas, random)
        self._imbalanced = imbalanced
        if imbalanced < np.inf:
            self.name = f"Ray's prefix tree, imbalance {imbalanced:.0f}"
        self._tenants: dict[int, set[int]] = {}
        self._texts = [OrderedDict[int, None]() for _ in range(replicas)]
        """Of each replica the blocks of text, the one used last at the end."""
        self._sizes = np.zeros(replicas)

    def choose(self, conversation: int, chain: Chain, unseen: int) -> int:
        seen = chain[unseen:]
        replica = self._find(seen)
        self._insert(replica, seen)
        return self._take(conversation, replica)

    def _insert(self, replica: int, seen: Chain) -> None:
        text = self._texts[replica]
        for name in reversed(seen):  # the beginning is forgotten last
            text.pop(name, None)
            text[name] = None
            self._tenants.setdefault(name, set()).add(replica)
        if len(text) > EVICTED:
            while len(text) > KEPT:
                self._forget(replica, text.popitem(last=False)[0])
        self._sizes[replica] = len(text)

    def _forget(self, replica: int, name: int) -> None:
        tenants = self._tenants[name]
        tenants.discard(replica)
        if not tenants:
            del self._tenants[name]

    def _find(self, seen: Chain) -> int:
        alive = self._requests[self._requests < np.inf]
        if alive.max() - alive.min() > self._imbalanced:
            return self._choose_less_busy()
        for matched in range(len(seen), int(MATCHED * len(seen)), -1):
            tenants = self._tenants.get(seen[matched - 1])
            if tenants:
                return min(tenants, key=self._requests.__getitem__)
        smallest = np.flatnonzero(self._sizes == self._sizes.min())
        return int(smallest[0])

    def remove(self, replica: int) -> None:
        super().remove(replica)
        self._sizes[replica] = np.inf
        for name in self._texts[replica]:
            self._forget(replica, name)
        self._texts[replica].clear()


class OurRouter:
    """The router of `server.cluster`, as it is."""

    name = "ours"

    def __init__(self, replicas: int, slots: int, max_bytes: int = DEFAULT_MAX_BYTES):
        self._router = PrefixRouter(PrefixIndex(max_bytes))
        self._names = [f"replica-{number}" for number in range(replicas)]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._router.add_all(dict.fromkeys(self._names, slots))
        self._routed: dict[int, RoutedRequest] = {}

    def choose(self, conversation: int, chain: Chain, unseen: int) -> int:
        choice = self._router.choose(chain)
        assert choice is not None, "a replica is alive"
        self._routed[conversation] = self._router.start(choice, chain)
        return self._numbers[choice.name]

    def note_read(self, conversation: int) -> None:
        self._router.note_read(self._routed[conversation])

    def finish(self, conversation: int, chain: Chain) -> None:
        self._router.finish(self._routed.pop(conversation), chain)

    def remove(self, replica: int) -> None:
        self._router.remove(self._names[replica])
