"""What a docstring in Google's style says: the first paragraph, and each parameter.

Source of the style: https://google.github.io/styleguide/pyguide.html, section 3.8.3.
"""

import inspect
import re
from collections.abc import Iterator
from itertools import takewhile

_HEADER = re.compile(r"(Args|Arguments|Parameters):\s*")
# `name: text`, `name (type): text`, and several names with one text.
_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?:\(.*?\))?\s*:\s*(.*)")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The first paragraph as one line, and the description of each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    first = takewhile(lambda line: line.strip() and not _HEADER.fullmatch(line), lines)
    return " ".join(line.strip() for line in first), _read_entries(_find_section(lines))


def _find_section(lines: list[str]) -> list[str]:
    """The lines below the header, as long as they are indented."""
    rest = iter(lines)
    if not any(_HEADER.fullmatch(line) for line in rest):
        return []
    return [line for line in takewhile(lambda line: not line[:1].strip(), rest) if line.strip()]


def _read_entries(lines: list[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    names: list[str] = []
    for indented, line in _measure(lines):
        entry = None if indented else _ENTRY.fullmatch(line)
        if entry:
            names = [name.strip() for name in entry[1].split(",")]
            texts |= {name: [] for name in names}
        for name in names:
            texts[name].append(entry[2] if entry else line)
    return {name: " ".join(filter(None, parts)) for name, parts in texts.items()}


def _measure(lines: list[str]) -> Iterator[tuple[bool, str]]:
    """Each line without its indentation, and whether that is deeper than the first one's."""
    for line in lines:
        yield _indentation(line) > _indentation(lines[0]), line.strip()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
