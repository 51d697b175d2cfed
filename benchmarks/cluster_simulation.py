"""Routing in a simulated cluster: how much of the prompts is cached, and how much time that saves.

    python -m benchmarks.cluster_simulation [--replicas 100] [--conversations 20000] [--load 0.5]
    python -m benchmarks.cluster_simulation --replicas 1000 --conversations 1000000 --jobs 2
    python -m benchmarks.cluster_simulation --plot docs/images/cluster.svg

The agents are recorded (`benchmarks.cluster.agents`), the costs are those that docs/figures.md has
(`benchmarks.cluster.replicas.CostModel`, which names the commands); options change them. Ours is
the router of the server itself. Each row is a policy in the same conversations: the share of the
tokens of prompts that were cached, seconds to the first token, how much busier the busiest replica
is than the mean, and the seconds to the first token of conversations whose replica has died,
compared with the others in that minute.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.cluster.agents import count_requests, read_agents
from benchmarks.cluster.policies import (
    IMBALANCED,
    LeastLoaded,
    OurRouter,
    Policy,
    PrefixTree,
    RandomChoice,
    RoundRobin,
)
from benchmarks.cluster.replicas import CostModel
from benchmarks.cluster.simulation import Outcome, Scenario, Simulation

POLICIES: dict[str, Callable[[Scenario, CostModel], Policy]] = {
    "random": lambda scenario, costs: RandomChoice(scenario.replicas, _draw(scenario)),
    "round-robin": lambda scenario, costs: RoundRobin(scenario.replicas, _draw(scenario)),
    "least-loaded": lambda scenario, costs: LeastLoaded(scenario.replicas, _draw(scenario)),
    "ray": lambda scenario, costs: PrefixTree(scenario.replicas, _draw(scenario)),
    "ray-imbalance": lambda scenario, costs: PrefixTree(
        scenario.replicas, _draw(scenario), IMBALANCED
    ),
    "ours": lambda scenario, costs: OurRouter(scenario.replicas, costs.slots),
}


def _draw(scenario: Scenario) -> np.random.Generator:
    return np.random.default_rng(scenario.seed + 1)


def simulate(name: str, scenario: Scenario, costs: CostModel) -> Outcome:
    """Simulates one policy in one scenario."""
    policy = POLICIES[name](scenario, costs)
    return Simulation(scenario, policy, read_agents(), costs).run()


def show(outcomes: list[Outcome]) -> str:
    """Returns the table, in Markdown."""
    lines = [
        "| routing | cached | first token, s: median, 95 %, 99 % | busiest / mean "
        "| after a death, s (others) |",
        "|---|---|---|---|---|",
    ]
    for one in outcomes:
        median, high, highest = one.first_token
        after, beside = one.death_seconds
        lines.append(
            f"| {one.policy} | {one.hit_rate:.1%} | {median:.1f}, {high:.1f}, {highest:.1f} "
            f"| {one.imbalance:.2f} | {after:.1f} ({beside:.1f}) |"
        )
    return "\n".join(lines)


def main() -> None:
    """Simulates, and prints."""
    parser = argparse.ArgumentParser(description="Routing in a simulated cluster.")
    for given, kind in ((Scenario(), "scenario"), (CostModel(), "costs")):
        group = parser.add_argument_group(kind)
        for one in fields(given):
            default = getattr(given, one.name)
            group.add_argument(f"--{one.name}", type=type(default), default=default)
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--jobs", type=int, default=1, help="policies at a time")
    parser.add_argument("--plot", type=Path, help="draw the table (needs matplotlib)")
    options = vars(parser.parse_args())
    scenario = Scenario(**{one.name: options[one.name] for one in fields(Scenario)})
    costs = CostModel(**{one.name: options[one.name] for one in fields(CostModel)})
    work = partial(simulate, scenario=scenario, costs=costs)
    if options["jobs"] > 1:
        with ProcessPoolExecutor(options["jobs"]) as pool:
            outcomes = list(pool.map(work, options["policies"]))
    else:
        outcomes = [work(name) for name in options["policies"]]
    requests = count_requests(read_agents()) * scenario.conversations
    print(
        f"{scenario.replicas:,} replicas, {scenario.conversations:,} conversations, "
        f"about {requests:,.0f} requests; {outcomes[0].best_hit_rate:.1%} of the tokens of prompts "
        "had been asked before in the same conversation, or are tools and system messages"
    )
    print(show(outcomes))
    if options["plot"]:
        from benchmarks.cluster.chart import draw

        draw(outcomes, options["plot"])


if __name__ == "__main__":
    main()
