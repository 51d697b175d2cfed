"""The router in Ray Serve: it runs in each front, and chooses a replica for each of its turns."""
# pyright: reportMissingImports=false

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from grammars.byte_cache import MIB
from server.cluster.prefix_index import PrefixIndex
from server.cluster.prefix_router import PrefixRouter, ReplicaReport, RoutedRequest
from server.cluster.turn_order import TurnOrder

RANKS = 4
"""Replicas that are asked one after the other whether they take a turn; the others are alike."""
INDEX_MIB = 256


class PrefixRequestRouter(RequestRouter):
    """Has Ray Serve ask replicas in the order of a `PrefixRouter`.

    Without `FIFOMixin`: a replica that was chosen for one turn is no good choice for the one that
    has waited longer.
    """

    def initialize_state(self, index_mib: int = INDEX_MIB, slots: int = 1, **kwargs: Any) -> None:
        """Called by Ray Serve.

        Args:
            index_mib: room for the prefixes that are known.
            slots: of a replica that has not told yet.
            kwargs: there are no others.
        """
        self._lock = threading.Lock()  # fronts tell how far their turns are from another thread
        self._router = PrefixRouter(PrefixIndex(index_mib * MIB))
        self._slots = slots

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """There are these replicas, and no others: one that is drained is none of them."""
        super().update_replicas(replicas)
        with self._lock:
            present = {replica.replica_id.unique_id for replica in replicas}
            for name in set(self._router.names) - present:
                self._router.remove(name)
            for replica in replicas:
                self._take_report(replica)

    def _take_report(self, replica: RunningReplica) -> None:
        name = replica.replica_id.unique_id
        stats = replica.routing_stats
        if stats:
            self._router.report(name, ReplicaReport(**stats))
        else:
            self._router.add(name, self._slots)

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """The replicas for a request, the best one first.

        Where a request avoids all that there are, it gets one of them nevertheless: if this returns
        none, Ray Serve asks again without a pause, and the front does nothing else.
        """
        order = _find_order(pending_request)
        if pending_request is None or order is None:
            return [candidate_replicas]
        # Ray pauses between rounds only if the router says so; its own mixins do.
        pending_request.routing_context.should_backoff = True
        by_name = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        among = by_name.keys() - order.avoid or by_name.keys()
        with self._lock:
            ranked = [choice.name for choice in self._router.rank(order.chain, among=among)]
        ranks = [[by_name[name]] for name in ranked[:RANKS]]
        rest = [by_name[name] for name in ranked[RANKS:]]
        return [*ranks, rest] if rest else ranks

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """A replica has taken the request."""
        order = _find_order(pending_request)
        if order is None:
            return
        with self._lock:
            choice = self._router.measure(replica_id.unique_id, order.chain)
            routed = self._router.start(choice, order.chain)
        order.ticket.watch = _Watch(self._lock, self._router, routed)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """A replica is dead."""
        super().on_replica_actor_died(replica_id)
        with self._lock:
            self._router.remove(replica_id.unique_id)


@dataclass(frozen=True)
class _Watch:
    """Tells the router how far a request is."""

    lock: threading.Lock
    router: PrefixRouter
    routed: RoutedRequest

    def note_read(self) -> None:
        if self.routed.unread:
            with self.lock:
                self.router.note_read(self.routed)

    def finish(self, chain: tuple[int, ...]) -> None:
        with self.lock:
            self.router.finish(self.routed, chain)


def _find_order(pending: PendingRequest | None) -> TurnOrder | None:
    """The turn that a request asks to decode; None: it asks for something else."""
    arguments: Sequence[Any] = pending.args if pending is not None else ()
    return next((value for value in arguments if isinstance(value, TurnOrder)), None)
