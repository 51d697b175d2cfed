"""Code blocks of the documents."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN_EACH = """
import runpy, sys
for path in sys.argv[1:]:
    print(path, file=sys.stderr)
    runpy.run_path(path, run_name="__main__")
"""
"""Runs programs in one process, each with its own names."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A code block: what it is written in ("" if the page does not say), and where it begins."""

    language: str
    code: str
    line: int


def read_pages() -> list[Path]:
    """The README and all pages below `docs`."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def read_snippets(text: str) -> list[Snippet]:
    """All code blocks of a page."""
    found: list[Snippet] = []
    for block in FENCE.finditer(text):
        line = text.count("\n", 0, block.start(2)) + 1
        found.append(Snippet(block[1], block[2], line))
    return found


def read_commands(snippets: Sequence[Snippet]) -> list[str]:
    """The lines that call `constrained`, in blocks that are no programs; without comments, and
    with continued lines joined."""
    commands: list[str] = []
    for snippet in snippets:
        if snippet.language in ("", "sh"):
            joined = snippet.code.replace("\\\n", " ")
            lines = [line.strip() for line in joined.splitlines()]
            commands += [line for line in lines if line.startswith("constrained ")]
    return commands
