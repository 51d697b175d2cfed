"""What tests of the command line share, beside the fixture `run`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Run: TypeAlias = Callable[..., tuple[int, str, str]]
"""Runs the command line in this process; returns its code and what it prints."""


def write(path: Path, content: Any) -> str:
    """Writes bytes, text, or else JSON; returns the path."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return str(path)
