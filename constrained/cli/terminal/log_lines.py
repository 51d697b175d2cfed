"""Log records as single lines, whatever texts of clients, servers and files they contain."""

import logging

from constrained.cli.terminal.output import escape_controls

INDENT = "    "
LOUD = ("mcp", "client")
"""Loggers of the package `mcp`. It logs each fault of a server with a traceback, as often as the
server causes one. Faults with consequences are also errors of ours."""


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
