"""Reads the descriptions of a function and its parameters from a docstring, in three styles.

The styles are Google's (https://google.github.io/styleguide/pyguide.html, section 3.8.3), NumPy's
(https://numpydoc.readthedocs.io/en/latest/format.html), and field lists of Sphinx and Epydoc
(`:param city: where`, `@param city: where`).
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

_NAME = r"(?:\\?\*){0,2}\w+"
"""Stars of `*args` and `**kwargs`, which Sphinx wants escaped."""
_NAMES = rf"{_NAME}(?:\s*,\s*{_NAME})*"
_GOOGLE_HEADER = re.compile(r"(Args|Arguments|Parameters):\s*")
_GOOGLE_ENTRY = re.compile(rf"({_NAMES})\s*(?:\(.*?\)\s*)?:(.*)")
"""`name: text` or `name (type): text`; several names may share a text."""
_NUMPY_HEADER = re.compile(r"(?:Other )?Parameters\s*")
_UNDERLINE = re.compile(r"-{3,}\s*")
_NUMPY_ENTRY = re.compile(rf"({_NAMES})\s*(?::.*)?")
"""`name`, `name : type`, or several names; the text follows on the next lines."""
_PARAMETERS = "param|parameter|arg|argument|key|keyword"
_OTHERS = "type|raises?|except|exception|returns?|rtype|yields?|ytype|var|ivar|cvar|vartype|meta"
# One blank, not any number: the next part also matches blanks, and two such parts take quadratic
# time.
_FIELD = re.compile(r"[:@]\w+(?:\s[^:]*)?:(?:\s.*)?")
_KNOWN_FIELD = re.compile(rf"[:@](?:{_PARAMETERS}|{_OTHERS})(?:\s[^:]*)?:(?:\s.*)?")
"""A field that Sphinx or Epydoc knows; a text may begin with other words between colons."""
_PARAMETER_FIELD = re.compile(rf"[:@](?:{_PARAMETERS})\s([^:]*):(.*)")
"""`:param name: text` or `:param type name: text`."""


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Returns the first paragraph as one line, and the description of each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    starts = {number for number, _ in _find_numpy_sections(lines)}
    first: list[str] = []
    for number, line in enumerate(lines):
        is_header = (
            _GOOGLE_HEADER.fullmatch(line) or _KNOWN_FIELD.fullmatch(line) or number in starts
        )
        if is_header or not line.strip():
            break
        first.append(line.strip())
    styles = [_read_fields(lines)]
    for _, section in _find_numpy_sections(lines):
        styles.append(_read_numpy_entries(section))
    styles.append(_read_google_entries(_find_google_section(lines)))
    texts: dict[str, str] = {}
    for style in styles:
        for name, described in style.items():
            texts[name] = described or texts.get(name, "")
    return " ".join(first), texts


def _find_google_section(lines: Sequence[str]) -> list[str]:
    for number, line in enumerate(lines):
        if _GOOGLE_HEADER.fullmatch(line):
            return list(filter(str.strip, _take_indented(lines[number + 1 :])))
    return []


def _read_google_entries(lines: Sequence[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        # A line that is indented deeper than the first one continues the text of its entry.
        is_deeper = _measure_indentation(line) > _measure_indentation(lines[0])
        text = line.strip()
        entry = _GOOGLE_ENTRY.fullmatch(text)
        if entry and not is_deeper:
            names = _read_names(entry[1])
            text = entry[2]
            for name in names:
                texts[name] = []
        for name in names:
            texts[name].append(text)
    return {name: _join(parts) for name, parts in texts.items()}


def _find_numpy_sections(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields the number of the header of each section of parameters, and its lines."""
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
        for name in _read_names(entry[1]):
            texts[name] = text
    return texts


def _read_names(listed: str) -> list[str]:
    return [name.strip().lstrip("\\*") for name in listed.split(",")]


def _read_fields(lines: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(lines):
        field = _PARAMETER_FIELD.fullmatch(line)
        words = field[1].split() if field else []
        if field and words and re.fullmatch(_NAME, words[-1]):
            further = _take_further(lines[number + 1 :])
            texts[words[-1].lstrip("\\*")] = _join([field[2], *further])
    return texts


def _take_further(lines: Sequence[str]) -> Iterable[str]:
    """Yields the further lines of a field: all before the next field, since some authors do not
    indent them. After the last field, or after a blank line, they have to be indented."""
    for number, line in enumerate(lines):
        if _FIELD.fullmatch(line):
            return lines[:number]
        if not line.strip():
            break
    return _take_indented(lines)


def _take_indented(lines: Iterable[str]) -> Iterator[str]:
    return takewhile(lambda line: not line[:1].strip(), lines)


def _join(lines: Iterable[str]) -> str:
    return " ".join(filter(None, map(str.strip, lines)))


def _measure_indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
