"""Routing: the longest prefix wins, a busy replica loses, the dead get nothing."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from server.cluster.prefix_index import ENTRY_BYTES, MAX_HOLDERS, PrefixIndex
from server.cluster.prefix_router import PrefixRouter, ReplicaReport, RouteChoice, RoutedRequest

NAMES = [f"replica-{number}" for number in range(6)]
CHAINS = st.lists(st.integers(0, 3), max_size=6).map(
    lambda digits: tuple(hash(tuple(digits[: n + 1])) & (2**64 - 1) for n in range(len(digits)))
)


def make_router(count: int = 4, slots: int = 2) -> PrefixRouter:
    router = PrefixRouter()
    for number in range(count):
        router.add(f"replica-{number}", slots)
    return router


def choose(router: PrefixRouter, chain: tuple[int, ...]) -> RouteChoice | None:
    """The first replica for a request."""
    return next(router.rank(chain), None)


class Cluster(RuleBasedStateMachine):
    """Any order of requests, deaths, drains and reports, against a model of what has to hold."""

    def __init__(self) -> None:
        super().__init__()
        self.router = PrefixRouter(PrefixIndex(stride=1))
        self.alive = set[str]()
        self.under_way: list[RoutedRequest] = []
        self.seen: dict[str, set[int]] = {}

    @rule(name=st.sampled_from(NAMES), slots=st.integers(1, 4))
    def add(self, name: str, slots: int) -> None:
        self.router.add(name, slots)
        self.alive.add(name)

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        self.router.remove(name)
        self.alive.discard(name)
        self.seen.pop(name, None)

    @rule(name=st.sampled_from(NAMES), requests=st.integers(0, 9), chain=CHAINS)
    def report(self, name: str, requests: int, chain: tuple[int, ...]) -> None:
        self.router.report(name, ReplicaReport(requests, slots=2, prefixes=(chain,)))
        self.alive.add(name)
        self.seen.setdefault(name, set()).update(chain)

    @rule(chain=CHAINS)
    def ask(self, chain: tuple[int, ...]) -> None:
        ranked = [*self.router.rank(chain)]
        assert {choice.name for choice in ranked} == self.alive
        assert len(ranked) == len(self.alive)
        for choice in ranked:
            known = self.seen.get(choice.name, set())
            assert choice.known + choice.unknown == len(chain)
            if choice.known:  # what it is said to have, it has computed
                assert chain[choice.known - 1] in known
        if ranked:
            self.under_way.append(self.router.start(ranked[0], chain))
            self.seen.setdefault(ranked[0].name, set()).update(chain)

    @precondition(lambda self: self.under_way)
    @rule()
    def read(self) -> None:
        self.router.note_read(self.under_way[0])

    @precondition(lambda self: self.under_way)
    @rule()
    def finish(self) -> None:
        self.router.finish(self.under_way.pop(0))

    @invariant()
    def names_those_that_may_be_asked(self) -> None:
        assert set(self.router.names) == self.alive


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=30)


@given(CHAINS.filter(len), CHAINS.filter(len))
def test_the_longest_prefix_wins_where_nobody_is_busy(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    router = make_router(slots=8)
    router.report("replica-1", ReplicaReport(0, slots=8, prefixes=(one,)))
    router.report("replica-2", ReplicaReport(0, slots=8, prefixes=(other,)))
    chosen = choose(router, one)
    assert chosen is not None
    assert chosen.known == len(one)
    assert chosen.name == "replica-1" or one == other[: len(one)]


def test_a_replica_that_is_busy_for_its_own_capacity_loses_the_request() -> None:
    router = make_router(count=3)
    chain = tuple(range(100, 120))
    router.add("large", slots=16)
    router.report("replica-0", ReplicaReport(1, slots=2, prefixes=(chain,)))
    router.report("large", ReplicaReport(5, slots=16, prefixes=(chain[:16],)))
    assert [choice.name for choice in router.rank(chain)][:2] == ["replica-0", "large"]
    router.report("replica-0", ReplicaReport(4, slots=2))  # though the fleet is idle on average
    assert [(choice.name, choice.known) for choice in router.rank(chain)][:2] == [
        ("large", 16),
        ("replica-0", 20),
    ]


def test_what_a_replica_has_yet_to_read_counts_as_busy() -> None:
    router = make_router(count=2, slots=8)
    chain = tuple(range(200, 300))
    router.report("replica-0", ReplicaReport(1, slots=8, prefixes=(chain,)))
    router.report("replica-1", ReplicaReport(1, slots=8, prefixes=(chain[:90],)))
    busy = router.start(RouteChoice("replica-0", 0, 500), tuple(range(500)))
    assert choose(router, chain) == RouteChoice("replica-1", 90, 10)
    router.note_read(busy)
    assert choose(router, chain) == RouteChoice("replica-0", 100, 0)


def test_where_all_are_busy_the_least_busy_gets_it() -> None:
    router = make_router(count=3)
    for number, requests in enumerate((9, 4, 7)):
        router.report(f"replica-{number}", ReplicaReport(requests, slots=2))
    assert [choice.name for choice in router.rank((5,))] == ["replica-1", "replica-2", "replica-0"]


def test_prompts_that_begin_alike_meet_whichever_router_they_come_through() -> None:
    one, other = make_router(count=50), make_router(count=50)
    for first in range(100):
        chosen = choose(one, (first, 1)), choose(other, (first, 2))
        assert chosen[0] == chosen[1]


def test_the_death_of_a_replica_moves_its_own_prompts_alone() -> None:
    router = make_router(count=10)
    before = {first: choose(router, (first,)) for first in range(1_000)}
    router.remove("replica-3")
    for first, choice in before.items():
        assert choice is not None
        if choice.name != "replica-3":
            assert choose(router, (first,)) == choice


def test_prompts_spread_by_the_slots_of_replicas() -> None:
    router = make_router(count=3, slots=2)
    router.add("large", slots=6)
    counts = Counter[str]()
    for number in range(3_000):
        choice = choose(router, ((number * 0x9E3779B97F4A7C15) % 2**64,))
        assert choice is not None
        counts[choice.name] += 1
    assert counts["large"] == pytest.approx(1_500, rel=0.1)
    assert counts["replica-0"] == pytest.approx(500, rel=0.2)


def test_a_replica_that_comes_again_under_its_name_has_nothing() -> None:
    router = make_router()
    router.report("replica-2", ReplicaReport(0, slots=2, prefixes=((1, 2, 3),)))
    router.remove("replica-2")
    router.add("replica-2", slots=2)
    assert all(choice.known == 0 for choice in router.rank((1, 2, 3)))


def test_a_short_prompt_goes_to_the_least_busy() -> None:
    router = make_router(count=3)
    for number, requests in enumerate((1, 0, 1)):
        router.report(f"replica-{number}", ReplicaReport(requests, slots=2))
    choice = choose(router, ())
    assert choice is not None
    assert choice.name == "replica-1"


def test_there_may_be_nobody() -> None:
    router = make_router(count=1)
    router.remove("replica-0")
    assert choose(router, (1, 2)) is None


def test_a_report_forgets_no_request_that_is_on_its_way() -> None:
    router = make_router(count=2, slots=1)
    for _ in range(2):
        router.start(RouteChoice("replica-0", 0, 1), (1,))
    router.report("replica-0", ReplicaReport(0, slots=1))
    assert next(router.rank((1,))).name == "replica-1"


@given(st.lists(st.tuples(st.integers(0, 9), CHAINS), max_size=60), st.integers(0, 20))
def test_the_index_is_bounded_in_bytes(
    notes: list[tuple[int, tuple[int, ...]]], entries: int
) -> None:
    index = PrefixIndex(max_bytes=entries * (ENTRY_BYTES + 8 * MAX_HOLDERS), stride=1)
    for replica, chain in notes:
        index.note(replica, chain)
        assert index.bytes <= entries * (ENTRY_BYTES + 8 * MAX_HOLDERS)
    assert (index.bytes == 0) == (len(index) == 0)


def test_a_prefix_that_many_have_names_the_latest() -> None:
    index = PrefixIndex()
    for replica in range(200):
        index.note(replica, (7,))
    ((blocks, holders),) = index.find((7,))
    assert (blocks, holders) == (1, tuple(range(200 - MAX_HOLDERS, 200)))
