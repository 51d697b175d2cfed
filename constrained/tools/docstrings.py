"""What docstrings say of a function and its parameters, in the three styles that people write.

Google's (https://google.github.io/styleguide/pyguide.html, section 3.8.3), that of NumPy
(https://numpydoc.readthedocs.io/en/latest/format.html), and field lists, as Sphinx and Epydoc have
them (`:param city: where`, `@param city: where`).
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

_GOOGLE_HEADER = re.compile(r"(Args|Arguments|Parameters):\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?:\(.*?\))?\s*:\s*(.*)")
"""`name: text` or `name (type): text`; several names may share a text."""
_NUMPY_HEADER = re.compile(r"(?:Other )?Parameters\s*")
_UNDERLINE = re.compile(r"-{3,}\s*")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
"""`name`, `name : type`, or several names; the text stands below."""
_FIELD = re.compile(r"[:@]\w+(?:\s+[^:]*)?:(?:\s.*)?")
_PARAMETER_FIELD = re.compile(
    r"[:@](?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\\?\*{0,2}(\w+)\s*:\s*(.*)"
)
"""`:param name: text` or `:param type name: text`."""


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring as one line, and the description of each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    starts = {number for number, _ in _find_numpy_sections(lines)}
    first: list[str] = []
    for number, line in enumerate(lines):
        is_header = _GOOGLE_HEADER.fullmatch(line) or _FIELD.fullmatch(line) or number in starts
        if is_header or not line.strip():
            break
        first.append(line.strip())
    texts = _read_fields(lines)
    for _, section in _find_numpy_sections(lines):
        texts |= _read_numpy_entries(section)
    texts |= _read_google_entries(_find_google_section(lines))
    return " ".join(first), texts


def _find_google_section(lines: Sequence[str]) -> list[str]:
    """The lines below the header, as long as they are indented."""
    for number, line in enumerate(lines):
        if _GOOGLE_HEADER.fullmatch(line):
            return list(filter(str.strip, _take_indented(lines[number + 1 :])))
    return []


def _read_google_entries(lines: Sequence[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        # A line that is indented deeper than the first one goes on with the text of its entry.
        is_deeper = _measure_indentation(line) > _measure_indentation(lines[0])
        text = line.strip()
        entry = _GOOGLE_ENTRY.fullmatch(text)
        if entry and not is_deeper:
            names = [name.strip() for name in entry[1].split(",")]
            text = entry[2]
            for name in names:
                texts[name] = []
        for name in names:
            texts[name].append(text)
    return {name: _join(parts) for name, parts in texts.items()}


def _find_numpy_sections(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """The sections of parameters: the number of the header, and the lines below its underline."""
    headers: list[int] = []
    for number, below in enumerate(lines[1:]):
        if lines[number].strip() and _UNDERLINE.fullmatch(below):
            headers.append(number)
    for header, end in pairwise([*headers, len(lines)]):
        if _NUMPY_HEADER.fullmatch(lines[header]):
            yield header, lines[header + 2 : end]


def _read_numpy_entries(lines: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(lines):
        entry = _NUMPY_ENTRY.fullmatch(line)
        if entry is None:
            continue
        text = _join(_take_indented(lines[number + 1 :]))
        for name in entry[1].split(","):
            texts[name.strip().lstrip("*")] = text
    return texts


def _read_fields(lines: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(lines):
        field = _PARAMETER_FIELD.fullmatch(line)
        if field is None:
            continue
        further = takewhile(_goes_on, lines[number + 1 :])
        texts[field[1]] = _join([field[2], *further])
    return texts


def _goes_on(line: str) -> bool:
    """A line goes on with the field above it."""
    return bool(line.strip()) and not _FIELD.fullmatch(line)


def _take_indented(lines: Iterable[str]) -> Iterator[str]:
    """The first lines that are blank or indented."""
    return takewhile(lambda line: not line[:1].strip(), lines)


def _join(lines: Iterable[str]) -> str:
    return " ".join(filter(None, map(str.strip, lines)))


def _measure_indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
