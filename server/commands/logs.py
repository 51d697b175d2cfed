"""The log: each record is one line, whatever texts of clients and files it contains."""

import json
import logging
from typing import Any

from constrained.cli.terminal.output import LineFormatter, show_loud


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


FORMATTERS = {"text": LineFormatter("%(levelname)s: %(message)s"), "json": JsonFormatter()}


def set_up_log(level: str, form: str = "text") -> None:
    """Writes the records of all loggers to stderr, from this level on, in a form of `FORMATTERS`;
    also those of uvicorn, if it does not configure its own log (`log_config=None`)."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[form])
    logging.basicConfig(level=level.upper(), handlers=[handler])
    if level == "info":  # httpx has a line for each request to a remote engine
        logging.getLogger("httpx").setLevel(logging.WARNING)
    show_loud(level == "debug")
