"""The log: a record is a line, whatever clients and files have had written into it."""

import json
import logging
from typing import Any

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


class JsonFormatter(logging.Formatter):
    """Writes each record as one line of JSON: time, level, logger, message, and the fields of the
    record, if it has any (`extra={"fields": ...}`)."""

    def format(self, record: logging.LogRecord) -> str:
        shown: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        shown |= getattr(record, "fields", {})
        if record.exc_info:
            shown["exception"] = self.formatException(record.exc_info)
        return json.dumps(shown, ensure_ascii=True, default=str)


def _indent(text: str) -> list[str]:
    return [INDENT + escape_controls(line) for line in text.split("\n")]


FORMATTERS = {"text": LineFormatter("%(levelname)s: %(message)s"), "json": JsonFormatter()}


def set_up_log(level: str, form: str = "text") -> None:
    """Writes the records of all loggers to stderr, from this level on: those of uvicorn as well,
    if it is told to configure none (`log_config=None`).

    Args:
        form: a key of `FORMATTERS`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[form])
    logging.basicConfig(level=level.upper(), handlers=[handler])
    if level == "info":  # httpx has a line for each request to a remote engine
        logging.getLogger("httpx").setLevel(logging.WARNING)
