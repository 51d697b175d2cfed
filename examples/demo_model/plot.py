# pyright: reportMissingImports=false
"""Draws the rows of an evaluation."""

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

if TYPE_CHECKING:
    from examples.demo_model.evaluate import Row

FREE, MASKED = "#b8c4cf", "#1f6f8b"


def draw(rows: "list[Row]", path: Path) -> None:
    """Exact answers of each model, free and with the mask, one panel a group of questions."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = list(dict.fromkeys(row.group for row in rows))
    figure, axes = pyplot.subplots(1, len(groups), figsize=(3.4 * len(groups), 3), sharey=True)
    for axis, group in zip([axes] if len(groups) == 1 else axes, groups, strict=True):
        chosen = [row for row in rows if row.group == group]
        names = list(dict.fromkeys(row.model for row in chosen))
        for shift, mask, color in ((-0.2, False, FREE), (0.2, True, MASKED)):
            shares = [100 * row.exact for row in chosen if row.mask == mask]
            places = [number + shift for number in range(len(names))]
            bars = axis.bar(places, shares, 0.38, color=color, label="mask" if mask else "free")
            axis.bar_label(bars, fmt="%.0f", fontsize=7)
        axis.set_title(f"{chosen[0].questions} {group}", fontsize=10)
        axis.set_xticks(range(len(names)), [n.removeprefix("model-") for n in names], fontsize=8)
        axis.set_ylim(0, 110)
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("exact answers, %")
    figure.axes[min(1, len(groups) - 1)].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
