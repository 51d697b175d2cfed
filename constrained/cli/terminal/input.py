"""Input of commands: files, and JSON in them or in options."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from constrained.engine.files.input_files import (
    open_input,
    read_input,
    read_stream,
    read_stream_lines,
)
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
                return read_stream(sys.stdin.buffer).decode("utf-8-sig")
            return read_input(path).decode("utf-8-sig")
        except UnicodeDecodeError as e:
            raise RequestError(f"{path} is not UTF-8: {e}", hint=f"Convert it ({option})") from e


def read_json(text: str, name: str) -> Any:
    """Reads JSON; `name` is what errors (RequestError) call it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise RequestError(f"{name} is not JSON: {e}") from e


def read_lines(path: str, option: str = "ROWS") -> Iterator[bytes]:
    """Yields the lines of a file that an option names; `-` is stdin.

    Raises:
        RequestError: it cannot be read.
    """
    with _failures(path, option):
        if path == "-":
            yield from read_stream_lines(sys.stdin.buffer)
            return
        with open_input(path) as file:
            yield from read_stream_lines(file)


@contextmanager
def _failures(path: str, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        hint = _HINTS.get(type(e))
        raise RequestError(f"{option}: {e.strerror}: {path!r}", hint=hint) from e
