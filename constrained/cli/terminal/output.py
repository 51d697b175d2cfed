"""Output of commands: JSON, text and tables on stdout; notes, errors, logs and progress on stderr.

rich draws tables and progress. Importing it takes 0.1 s, so it is imported only where it is needed.
"""

import json
import logging
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from constrained.cli.terminal.exit_codes import ExitCode
from grammars.errors import Error

if TYPE_CHECKING:
    from rich.console import Console

    from grammars.schema.nodes import Schema
    from grammars.turn import Tool

Row = TypeVar("Row")
NO_LIMIT = 100_000
"""Columns of a pipe: nothing is wrapped there."""
_C1_CONTROLS = re.compile("[\x7f-\x9f]")
Report = Callable[[float, float], None]
"""Takes the finished part and the whole."""
COLOURS = ("auto", "always", "never")
RED, DIM, PLAIN = "\x1b[1;31m", "\x1b[2m", "\x1b[0m"
INDENT = "    "
LOUD = ("mcp", "client")
"""Loggers of the package `mcp`. It logs each fault of a server with a traceback, as often as the
server causes one. Faults with consequences are also errors of ours."""


def set_colour(choice: str) -> None:
    """Sets whether the output of this process has colours, with the environment variables that rich
    and others read: FORCE_COLOR, NO_COLOR. `auto` is as the variables say, or else colours at a
    terminal."""
    if choice == "always":
        os.environ["FORCE_COLOR"] = "1"
        os.environ.pop("NO_COLOR", None)
    elif choice == "never":
        os.environ["NO_COLOR"] = "1"


def has_colour(out: TextIO) -> bool:
    """Returns whether text on this stream is coloured."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return out.isatty() and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    """One line of JSON on stdout. At a terminal, control characters are escaped as in JSON, also
    those that JSON may contain (U+009B begins a command of the terminal)."""
    text = json.dumps(value, ensure_ascii=False)
    if sys.stdout.isatty():
        text = _C1_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    try:
        print(text, flush=True)
    except UnicodeEncodeError:  # a lone surrogate, or a terminal that does not speak UTF-8
        print(json.dumps(value), flush=True)


def make_printable(text: str, out: TextIO, *, is_data: bool = True) -> str:
    """Escapes characters that the encoding of a stream does not have. At a terminal, control
    characters are escaped, too: a model could move the cursor or set the title with them.

    Args:
        is_data: False: control characters are escaped everywhere, since a report that goes to a
            pipe or a file is shown at a terminal later.
    """
    if out.isatty() or not is_data:
        text = "".join(map(_escape_control, text))
    encoding = out.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _escape_control(char: str) -> str:
    if char in "\n\t" or unicodedata.category(char) != "Cc":
        return char
    return f"\\x{ord(char):02x}"


def escape_controls(text: str) -> str:
    """Puts a text on one line: escapes all characters that are not printed, such as line ends,
    escape codes of terminals, marks of the writing direction, and lone surrogates."""
    if text.isprintable():
        return text
    escaped: list[str] = []
    for char in text:
        is_shown = char.isprintable()
        escaped.append(char if is_shown else char.encode("unicode_escape").decode("ascii"))
    return "".join(escaped)


def print_text(text: str) -> None:
    """A text for people on stdout, with escapes for control characters."""
    print(make_printable(text, sys.stdout, is_data=False))


def print_data(text: str) -> None:
    """A text for programs on stdout, such as a path or a grammar; at a terminal like
    `print_text`."""
    print(make_printable(text, sys.stdout))


def make_console(out: TextIO) -> "Console":
    """Returns what draws on a stream."""
    from rich.console import Console

    console = Console(file=out, highlight=False, markup=False, emoji=False)
    if not out.isatty():
        console.width = NO_LIMIT
    return console


def print_table(rows: Sequence[Mapping[str, Any]], right: Collection[str] = ()) -> None:
    """Prints rows, which all have the same keys, on stdout, in columns with the names of their
    keys; `right` are those to align at the right, such as numbers."""
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
    with console.capture() as captured:
        console.print(table)
    encoding = sys.stdout.encoding or "utf-8"
    for line in captured.get().splitlines():
        print(line.rstrip().encode(encoding, "backslashreplace").decode(encoding))


def _write_cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_write_cell, value))
    return escape_controls(str(value))


def print_answers(
    rows: Iterable[Row | Error], answer: Callable[[Iterable[Row | Error]], Iterable[Any]]
) -> ExitCode:
    """Prints an answer for each row as JSON Lines, and on stderr which rows could not be read, in
    whose place `rows` has an error; returns USAGE if there is one."""
    code = ExitCode.DONE

    def read() -> Iterator[Row | Error]:
        nonlocal code
        for row in rows:
            if isinstance(row, Error):
                code = ExitCode.USAGE
                print_error(str(row))
            yield row

    for line in answer(read()):
        print_json(line)
    return code


def print_error(message: str) -> None:
    """An error on stderr."""
    _print_message("error", RED, message)


def print_notes(notes: Iterable[str]) -> None:
    """Notes on stderr: no errors, but good to know."""
    for note in notes:
        _print_message("note", DIM, note)


def _print_message(kind: str, style: str, message: str) -> None:
    """Prints a message on stderr. Its further lines, which may quote files, are indented, so that
    they do not look like messages."""
    if has_colour(sys.stderr):
        kind = f"{style}{kind}{PLAIN}"
    text = "\n    ".join(map(escape_controls, message.split("\n")))
    print(f"constrained: {kind}: {text}", file=sys.stderr)


class LineFormatter(logging.Formatter):
    """Writes each record on one line, with escapes for unprintable characters: line ends, control
    and escape characters, marks that change the direction of text.

    Tracebacks follow on indented lines, so none of them looks like a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        lines = [escape_controls(self.formatMessage(record))]
        # Not `exc_text`: another handler may have stored a traceback there without escapes.
        if record.exc_info:
            lines += _indent(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _indent(self.formatStack(record.stack_info))
        return "\n".join(lines)


def _indent(text: str) -> list[str]:
    return [INDENT + escape_controls(line) for line in text.split("\n")]


class NoteFormatter(LineFormatter):
    """Writes warnings as notes of the command line, and errors as its errors."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        kind = "error" if record.levelno >= logging.ERROR else "note"
        return f"constrained: {kind}: {record.message}"


def show_warnings() -> None:
    """Shows warnings of all loggers as notes of the command line, if no log is set up."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(NoteFormatter())
    show_loud(False)


def show_loud(is_shown: bool) -> None:
    """Sets whether the log has messages of `LOUD`, whose causes are reported as errors anyway."""
    level = logging.NOTSET if is_shown else logging.CRITICAL
    for name in LOUD:
        logging.getLogger(name).setLevel(level)


@contextmanager
def show_progress(what: str, unit: str = "bytes") -> Iterator[Report | None]:
    """Shows the progress of some work, such as "downloading", on stderr, with size, speed and
    remaining time; removes the line at the end. Bytes are shown as MB or GB, other units are
    counted. Gives None if stderr is not a terminal."""
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


def describe_checked(tools: "Iterable[Tool]") -> Iterator[str]:
    """Yields the keywords of the tools' schemas that the mask does not enforce."""
    for tool in tools:
        yield from describe_findings(f"tool {tool.name!r}", tool.schema)


def describe_findings(name: str, schema: "Schema") -> Iterator[str]:
    """Yields a line for each keyword of a schema that the mask does not enforce, or that was
    repaired; the name begins each line."""
    from constrained.prompt.tools.reports import describe_report

    for line in describe_report(schema.report, ("repaired", "checked")):
        yield f"{name}: {line}"
