"""Draws the reliability diagram of `benchmarks.calibration`, for light and dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SIDE, MARGIN = 300, 56  # pixels
STYLE = """
text { font: 12px sans-serif; fill: #24292f }
.axis { stroke: #8d99a6; fill: none }
.ideal { stroke: #8d99a6; stroke-dasharray: 4 4 }
.line { stroke: #1f6f8b; stroke-width: 2; fill: none }
circle { fill: #1f6f8b }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .line { stroke: #5fb3d1 }
  circle { fill: #5fb3d1 }
}
"""


@dataclass(frozen=True)
class Bin:
    """Calls of similar confidence: the mean of it, the share that was right, how many."""

    confidence: float
    right: float
    count: int


def draw(bins: Sequence[Bin], path: Path) -> None:
    """A point for each bin; on the dashed line, confidence is the share of right calls."""
    size = SIDE + 2 * MARGIN
    points = [(_x(one.confidence), _y(one.right)) for one in bins]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" '
        f'width="{size}" height="{size}" role="img" aria-label="Reliability diagram">',
        f"<style>{STYLE}</style>",
        f'<rect class="axis" x="{MARGIN}" y="{MARGIN}" width="{SIDE}" height="{SIDE}"/>',
        f'<line class="ideal" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>',
        f'<polyline class="line" points="{line}"/>',
    ]
    for one, (x, y) in zip(bins, points, strict=True):
        title = f"{one.count} calls, confidence {one.confidence:.2f}, {one.right:.0%} right"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{title}</title></circle>')
    for tick in (0, 0.5, 1):
        parts.append(f'<text x="{_x(tick)}" y="{_y(0) + 18}" text-anchor="middle">{tick}</text>')
        parts.append(
            f'<text x="{MARGIN - 8}" y="{_y(tick) + 4}" text-anchor="end">{tick:.0%}</text>'
        )
    middle = MARGIN + SIDE / 2
    parts.append(
        f'<text x="{middle}" y="{_y(0) + 38}" text-anchor="middle">confidence of the call</text>'
    )
    parts.append(f'<text x="{MARGIN}" y="{MARGIN - 12}">calls that are exactly right</text>')
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _x(share: float) -> float:
    return MARGIN + SIDE * share


def _y(share: float) -> float:
    return MARGIN + SIDE * (1 - share)
