"""Tables and progress, drawn by rich; it is imported where there is something to draw, for it takes
0.1 s."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from constrained.commands.output import escape_controls

if TYPE_CHECKING:
    from rich.console import Console

NO_LIMIT = 100_000
"""Columns of a pipe: nothing is wrapped there."""
Report = Callable[[float, float], None]
"""Takes what is done and the whole."""


def make_console(out: TextIO) -> "Console":
    """What draws on a stream."""
    from rich.console import Console

    console = Console(file=out, highlight=False, markup=False, emoji=False)
    if not out.isatty():
        console.width = NO_LIMIT
    return console


def print_table(rows: Sequence[Mapping[str, Any]], right: Collection[str] = ()) -> None:
    """Prints rows on stdout, in columns with the names of their keys.

    Args:
        rows: all have the same keys.
        right: the columns that stand at the right, such as those of numbers.
    """
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in rows[0]:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_write_cell(value)) for value in row.values()))
    console = make_console(sys.stdout)
    with console.capture() as drawn:
        console.print(table)
    encoding = sys.stdout.encoding or "utf-8"
    for line in drawn.get().splitlines():
        print(line.rstrip().encode(encoding, "backslashreplace").decode(encoding))


def _write_cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_write_cell, value))
    return escape_controls(str(value))


@contextmanager
def show_progress(what: str, unit: str = "bytes") -> Iterator[Report | None]:
    """Shows how far something is on stderr, with size, speed and the time that is left; the line
    goes at the end. None where stderr is no terminal: there is nobody to see it.

    Args:
        what: is under way, such as "downloading".
        unit: of what is counted; bytes are shown as MB or GB.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress

    columns: list[Any] = [
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.TaskProgressColumn(),
    ]
    if unit == "bytes":
        columns += [progress.DownloadColumn(), progress.TransferSpeedColumn()]
    else:
        columns += [progress.MofNCompleteColumn(), progress.TextColumn(unit)]
    columns += [progress.TimeRemainingColumn(compact=True)]
    console = make_console(sys.stderr)
    shown = progress.Progress(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=False,  # a server loads models while others print
        redirect_stderr=False,
    )
    with shown:
        task = None

        def report(done: float, whole: float) -> None:
            nonlocal task
            if task is None:
                task = shown.add_task(escape_controls(what), total=whole)
            shown.update(task, completed=done)

        yield report
