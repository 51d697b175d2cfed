"""The router in Ray Serve. It runs in each front and chooses a replica for each turn."""
# pyright: reportMissingImports=false

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from grammars.limits.byte_cache import MIB
from server.cluster.prefix_index import PrefixIndex
from server.cluster.prefix_router import PrefixRouter, ReplicaReport, RoutedRequest
from server.cluster.turn_order import TurnOrder

RANKS = 4
"""How many replicas are tried one after the other; all further ones are tried together."""
INDEX_MIB = 256


class PrefixRequestRouter(RequestRouter):
    """Makes Ray Serve try replicas in the order of a `PrefixRouter`.

    Without `FIFOMixin`: a replica that was chosen for one turn may be a bad choice for the turn
    that has waited longest.
    """

    def initialize_state(self, index_mib: int = INDEX_MIB, slots: int = 1, **kwargs: Any) -> None:
        """Called by Ray Serve. `slots` are those of a replica without a report."""
        self._lock = threading.Lock()  # fronts report progress from another thread
        self._router = PrefixRouter(PrefixIndex(index_mib * MIB))
        self._slots = slots

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Takes the current replicas, without those that are draining."""
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
        """Returns the replicas for a request, best first.

        If a request avoids all replicas, it gets one of them nevertheless: without any, Ray Serve
        would call this again without a pause, and block the front.
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
        """Called by Ray Serve when a replica has accepted the request."""
        order = _find_order(pending_request)
        if order is None:
            return
        with self._lock:
            choice = self._router.measure(replica_id.unique_id, order.chain)
            routed = self._router.start(choice, order.chain)
        order.ticket.watch = _Watch(self._lock, self._router, routed)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        super().on_replica_actor_died(replica_id)
        with self._lock:
            self._router.remove(replica_id.unique_id)


@dataclass(frozen=True)
class _Watch:
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
    arguments: Sequence[Any] = pending.args if pending is not None else ()
    return next((value for value in arguments if isinstance(value, TurnOrder)), None)
