"""Input of commands: files, and JSON in them or in options."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from constrained.errors import RequestError

_HINTS: dict[type[OSError], str] = {
    FileNotFoundError: "Check the path",
    IsADirectoryError: "Name a file in it",
    PermissionError: "Ask for the right to read it",
}


def read_text(path: str, option: str) -> str:
    """Reads the text of a file that an option names; `-` is stdin.

    Raises:
        RequestError: it cannot be read, or is not UTF-8; the message names the option.
    """
    with _failures(path, option):
        try:
            if path == "-":
                return sys.stdin.buffer.read().decode("utf-8-sig")
            return Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as e:
            raise RequestError(f"{path} is not UTF-8: {e}", hint=f"Convert it ({option})") from e


def read_json(text: str, name: str) -> Any:
    """JSON; `name` is what errors (RequestError) call it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise RequestError(f"{name} is not JSON: {e}") from e


def read_lines(path: str, option: str = "ROWS") -> Iterator[bytes]:
    """Yields the lines of a file that an option names; `-` is stdin.

    Raises:
        RequestError: it cannot be read.
    """
    if path == "-":
        yield from sys.stdin.buffer
        return
    with _failures(path, option), Path(path).open("rb") as file:
        yield from file


@contextmanager
def _failures(path: str, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        hint = _HINTS.get(type(e))
        raise RequestError(f"{option}: {e.strerror}: {path!r}", hint=hint) from e
