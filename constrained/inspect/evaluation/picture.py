"""A picture of an evaluation, as SVG: for each model and way, the valid and the right calls."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from constrained.inspect.evaluation.report import Evaluation, Figures

WIDTH, LABELS, BAR, MARGIN = 760, 230, 400, 20
LINE, TITLE = 24, 40
VALID, RIGHT, FRAME, TEXT = "#9ecae1", "#08519c", "#d0d0d0", "#202020"


def draw_picture(evaluation: Evaluation) -> str:
    """Returns the picture: a light bar for the calls that fit a tool, a dark one in it for those
    that are exactly right, of all questions that need a call."""
    rows = [row for row in evaluation.summarise() if row.kind is None]
    rows = [row for row in rows if row.valid is not None]
    drawn: list[str] = []
    y = MARGIN
    for subject in evaluation.subjects:
        y += TITLE
        drawn.append(_write(MARGIN, y - 10, subject, weight="bold"))
        for row in rows:
            if row.way.subject == subject:
                drawn += _draw_row(row, y)
                y += LINE
    y += LINE
    drawn += _draw_legend(y)
    height = y + LINE + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="13" fill="{TEXT}">'
    )
    title = "<title>Calls that fit a tool, and calls that are exactly right</title>"
    ground = f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([head, title, ground, *drawn, "</svg>"])


def _draw_row(row: Figures, y: int) -> Iterator[str]:
    valid, exact = row.valid or 0.0, row.exact or 0.0
    yield _write(MARGIN, y + 14, str(row.way))
    yield _fill(LABELS, y, BAR, FRAME)
    yield _fill(LABELS, y, BAR * valid, VALID)
    yield _fill(LABELS, y, BAR * exact, RIGHT)
    yield _write(LABELS + BAR + 10, y + 14, f"{valid:.0%}, {exact:.0%}")


def _draw_legend(y: int) -> Iterator[str]:
    yield _fill(LABELS, y, 14, VALID)
    yield _write(LABELS + 20, y + 14, "fits a tool")
    yield _fill(LABELS + 130, y, 14, RIGHT)
    yield _write(LABELS + 150, y + 14, "exactly right, or the goal is reached")


def _fill(x: int, y: int, width: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:.1f}" height="18" fill="{colour}"/>'


def _write(x: int, y: int, text: str, weight: str = "normal") -> str:
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return f'<text x="{x}" y="{y}" font-weight="{weight}">{escape(shown)}</text>'
