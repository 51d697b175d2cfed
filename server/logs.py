"""The log: a record is a line, whatever clients and files have had written into it."""

import logging

from constrained.terminal.output import escape_controls

INDENT = "    "


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


def set_up_log(level: str) -> None:
    """Writes the records of all loggers to stderr, from this level on: those of uvicorn as well,
    if it is told to configure none (`log_config=None`)."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
