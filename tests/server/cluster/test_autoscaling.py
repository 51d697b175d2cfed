"""How many replicas there should be."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from server.cluster.autoscaling import (
    KV_USED,
    REQUESTS,
    SLOTS,
    ReplicaLoad,
    choose_replicas,
    count_wanted,
)

LOADS = st.lists(
    st.builds(ReplicaLoad, st.integers(0, 40), st.just(4), st.floats(0, 1)), min_size=1, max_size=8
)


@given(LOADS, st.integers(0, 50), st.integers(0, 50))
def test_more_requests_never_want_fewer_replicas(
    loads: list[ReplicaLoad], some: int, more: int
) -> None:
    fewer = count_wanted(loads, waiting=some, target=0.8)
    assert fewer >= 1
    assert count_wanted(loads, waiting=some + more, target=0.8) >= fewer


def test_requests_and_full_caches_want_replicas() -> None:
    idle = ReplicaLoad(0, 4, 0.0)
    assert count_wanted([idle, idle], waiting=0, target=0.8) == 1
    assert count_wanted([ReplicaLoad(4, 4, 0.1)] * 2, waiting=0, target=0.8) == 3
    assert count_wanted([ReplicaLoad(1, 4, 1.0)] * 2, waiting=0, target=0.8) == 3


def test_the_policy_keeps_the_bounds_of_the_deployment() -> None:
    context = SimpleNamespace(
        aggregated_metrics={
            REQUESTS: {"a": 40.0, "b": 0.0},
            SLOTS: {"a": 4.0, "b": 4.0},
            KV_USED: {"a": 0.5, "b": 0.0},
        },
        current_num_replicas=2,
        total_queued_requests=3,
        capacity_adjusted_min_replicas=1,
        capacity_adjusted_max_replicas=5,
    )
    assert choose_replicas(context)[0] == 5
    context.aggregated_metrics = {}
    assert choose_replicas(context)[0] == 2
