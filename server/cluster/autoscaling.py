"""How many replicas there should be: by the requests that they have, and by their KV caches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

FULL = 0.9
"""Share of the KV cache of requests under way above which a replica has no room for one more."""
REQUESTS, KV_USED, SLOTS = "requests", "kv_used", "slots"
"""Names of the figures that a replica records."""


@dataclass(frozen=True)
class ReplicaLoad:
    """How busy a replica is: the requests that it decodes or that wait, how many it decodes
    together, and the share of its KV cache that they take, 0 to 1."""

    requests: float
    slots: float
    kv_used: float


def count_wanted(loads: Sequence[ReplicaLoad], *, waiting: float, target: float) -> int:
    """Returns the number of replicas that requests want, with those `waiting` that no replica has
    yet; `target` is the share of the slots that should be in use, 0 to 1."""
    if not loads:
        return 1
    slots = sum(load.slots for load in loads) / len(loads)
    requests = waiting + sum(load.requests for load in loads)
    by_requests = ceil(requests / max(1e-9, slots * target))
    by_cache = ceil(sum(load.kv_used for load in loads) / FULL)
    return max(1, by_requests, by_cache)


def choose_replicas(context: Any, target: float = 0.8) -> tuple[int, dict[str, Any]]:
    """Returns the policy for Ray Serve: the number of replicas, within the bounds of the
    deployment."""
    figures: Mapping[str, Mapping[Any, float]] = context.aggregated_metrics or {}
    loads: list[ReplicaLoad] = []
    for replica, requests in figures.get(REQUESTS, {}).items():
        slots = figures.get(SLOTS, {}).get(replica, 1.0)
        kv_used = figures.get(KV_USED, {}).get(replica, 0.0)
        loads.append(ReplicaLoad(requests, slots, kv_used))
    wanted = context.current_num_replicas
    if loads:
        wanted = count_wanted(loads, waiting=context.total_queued_requests or 0, target=target)
    least = context.capacity_adjusted_min_replicas
    max_replicas = context.capacity_adjusted_max_replicas
    return min(max(wanted, least), max_replicas), {}
