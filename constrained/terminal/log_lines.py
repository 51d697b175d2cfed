"""Records of the log as lines, whatever clients, servers and files have had written into them."""

import logging

from constrained.terminal.output import escape_controls

INDENT = "    "
LOUD = ("mcp", "client")
"""Loggers of the package `mcp`. It logs what a server does wrong, with tracebacks and as often as
the server likes; what comes of it is an error of ours, too."""


class LineFormatter(logging.Formatter):
    """Writes each record on one line, with escapes for what is not printed: line ends, control and
    escape characters, marks that turn the direction of writing.

    Tracebacks have lines of their own, which are indented: none of them looks like a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        lines = [escape_controls(self.formatMessage(record))]
        # Not `exc_text`, which another handler may have put there, as it likes.
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
    """Warnings of all loggers are notes of the command line, where no log is set up."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(NoteFormatter())
    show_loud(False)


def show_loud(is_shown: bool) -> None:
    """Whether the log has what comes as an error anyway."""
    level = logging.NOTSET if is_shown else logging.CRITICAL
    for name in LOUD:
        logging.getLogger(name).setLevel(level)
