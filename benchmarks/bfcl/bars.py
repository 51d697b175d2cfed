# pyright: reportMissingImports=false
"""Draws the table of `benchmarks.real`."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from benchmarks.bfcl.answers import Figures

COLORS = {"constrained": "#1f6f8b", "llama-server": "#d98c3f", "GBNF": "#b8c4cf"}
OTHER = "#8d99a6"


def draw(rows: Sequence[Figures], path: Path) -> None:
    """Bars for each way, a panel for each kind of row: valid answers, and among them exact ones.

    Of rows that no tool answers, a valid answer has no call.
    """
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text, and can be found
    matplotlib.rcParams["svg.hashsalt"] = "constrained"  # the same file each time
    from matplotlib import pyplot

    kinds = list(dict.fromkeys(row.kind for row in rows))
    ways = list(dict.fromkeys(row.way for row in rows))
    figure, axes = pyplot.subplots(
        1, len(kinds), figsize=(3.2 * len(kinds), 0.4 * len(ways) + 1.2), sharey=True, squeeze=False
    )
    for axis, kind in zip(axes[0], kinds, strict=True):
        of_kind = [row for row in rows if row.kind == kind]
        for row in of_kind:
            place = len(ways) - ways.index(row.way)
            color = COLORS.get(row.way.partition(",")[0], OTHER)
            axis.barh(place, 100 * row.valid, 0.7, color=color, alpha=0.35)
            label = f"{row.valid:.0%} valid"
            if row.exact is not None:
                axis.barh(place, 100 * row.exact, 0.7, color=color)
                label = f"{label}, {row.exact:.0%} exact"
            if kind == "irrelevance":
                label = f"{row.valid:.0%} no call"
            axis.text(100 * row.valid + 3, place, label, fontsize=7, va="center")
        axis.set_title(f"{of_kind[0].count} {kind}", fontsize=10)
        axis.set_xlim(0, 200)  # labels stand after the bars
        axis.set_xticks((0, 50, 100))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_yticks(range(len(ways), 0, -1), ways, fontsize=8)
    figure.supxlabel("% of rows", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
