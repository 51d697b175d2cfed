# pyright: reportMissingImports=false
"""Draws the table of `benchmarks.cluster_simulation`."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from benchmarks.cluster.simulation import Outcome

OURS, OTHER = "#1f6f8b", "#b8c4cf"


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """Bars for each policy: what of the prompts was cached, and the time to the first token."""
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text, and can be found
    matplotlib.rcParams["svg.hashsalt"] = "constrained"  # the same file each time
    from matplotlib import pyplot

    figure, (cached, first) = pyplot.subplots(
        1, 2, figsize=(9, 0.4 * len(outcomes) + 1.2), sharey=True
    )
    for place, outcome in enumerate(reversed(outcomes)):
        color = OURS if outcome.policy == "ours" else OTHER
        cached.barh(place, 100 * outcome.hit_rate, 0.7, color=color)
        cached.text(100 * outcome.hit_rate + 2, place, f"{outcome.hit_rate:.0%}", va="center")
        median = outcome.first_token[0]
        first.barh(place, median, 0.7, color=color)
        first.text(1.15 * median, place, f"{median:,.1f} s", va="center")
    cached.set_xlim(0, 120)
    cached.set_xlabel("% of the tokens of prompts that were cached")
    first.set_xscale("log")
    first.margins(x=0.4)
    first.set_xlabel("seconds to the first token (median)")
    names = [outcome.policy for outcome in reversed(outcomes)]
    cached.set_yticks(range(len(outcomes)), names)
    for axis in (cached, first):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
