"""Known chat templates, by their hashes: those in the tests of llama.cpp.

The table has no texts of the templates, only a hash of each tag and of each text between tags. That
is enough to find the nearest known template, and the tags by which a template differs from it.
"""

import base64
import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from constrained.inspect.doctor.verdicts import Level, Verdict, shorten

TABLE = Path(__file__).with_name("known_templates.json")
_PART = re.compile(r"(\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\})", re.DOTALL)
_DIGEST = 3  # bytes of a part
_ALIKE = 0.5  # the minimum fraction of common digests of two templates of one family
_MAX_SHOWN = 4


@dataclass(frozen=True)
class TemplatePart:
    """A tag, or a text between two tags.

    Args:
        text: without white space around it.
        line: where it begins.
    """

    text: str
    line: int

    @property
    def digest(self) -> bytes:
        """The first bytes of its SHA-256, without regard to white space."""
        return hashlib.sha256(" ".join(self.text.split()).encode()).digest()[:_DIGEST]


@dataclass(frozen=True)
class Known:
    """A known template.

    Args:
        name: of its file.
        sha256: of its text.
        digests: of its parts, in order.
    """

    name: str
    sha256: str
    digests: tuple[bytes, ...]


def split_parts(source: str) -> list[TemplatePart]:
    """Splits a template into tags and texts, without comments and white space."""
    parts: list[TemplatePart] = []
    line = 1
    for text in _PART.split(source):
        stripped = text.strip()
        if stripped and not stripped.startswith("{#"):
            skipped = text[: len(text) - len(text.lstrip())]
            parts.append(TemplatePart(stripped, line + skipped.count("\n")))
        line += text.count("\n")
    return parts


def hash_source(source: str) -> str:
    """Returns the SHA-256 of a template, with Unix line ends and without white space at the end."""
    text = source.replace("\r\n", "\n").rstrip()
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_table(sources: Mapping[str, str], origin: str) -> str:
    """Writes the table of these templates, as JSON.

    Args:
        sources: their texts by name.
        origin: the source of the templates.
    """
    rows: dict[str, dict[str, str]] = {}
    for name, source in sorted(sources.items()):
        digests = b"".join(part.digest for part in split_parts(source))
        parts = base64.b64encode(digests).decode("ascii")
        rows[name] = {"sha256": hash_source(source), "parts": parts}
    return json.dumps({"origin": origin, "templates": rows}, indent=1) + "\n"


@cache
def read_known() -> tuple[Known, ...]:
    """Returns all known templates."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    known: list[Known] = []
    for name, row in table["templates"].items():
        data = base64.b64decode(row["parts"])
        digests = [data[i : i + _DIGEST] for i in range(0, len(data), _DIGEST)]
        known.append(Known(name, row["sha256"], tuple(digests)))
    return tuple(known)


def compare_known(source: str) -> Iterator[Verdict]:
    """Checks whether a template is a known one, or how it differs from the nearest one."""
    sha256 = hash_source(source)
    facts: dict[str, Any] = {"sha256": sha256}
    for known in read_known():
        if known.sha256 == sha256:
            facts |= {"known": known.name, "same": True}
            yield Verdict(Level.OK, f"it is {known.name} of llama.cpp, unchanged", facts=facts)
            return
    parts = split_parts(source)
    digests = [part.digest for part in parts]
    nearest = find_nearest(digests)
    if nearest is None:
        yield Verdict(Level.OK, "it resembles none of the known templates", facts=facts)
        return
    added, missing = _compare(parts, digests, nearest)
    facts |= {"known": nearest.name, "same": False, "missing": missing}
    facts["added"] = [{"line": part.line, "text": part.text} for part in added]
    if not added and not missing:
        text = f"it is {nearest.name} of llama.cpp, except for white space and comments"
        yield Verdict(Level.OK, text, facts=facts)
        return
    shown = "; ".join(f"line {p.line}: {shorten(p.text, 80)}" for p in added[:_MAX_SHOWN])
    more = len(added) - _MAX_SHOWN
    if more > 0:
        shown += f"; and {more} more"
    text = f"it differs from {nearest.name} of llama.cpp: {len(added)} parts are new"
    text += f" ({shown})" if shown else ""
    yield Verdict(Level.NOTE, f"{text}, {missing} of the other one are missing", facts=facts)


def find_nearest(digests: Sequence[bytes]) -> Known | None:
    """Finds the known template with the most common parts; None: none has enough."""
    own = set(digests)
    best, best_share = None, _ALIKE
    for known in read_known():
        other = set(known.digests)
        alike = len(own & other) / max(1, len(own | other))
        if alike > best_share:
            best, best_share = known, alike
    return best


def _compare(
    parts: Sequence[TemplatePart], digests: Sequence[bytes], known: Known
) -> tuple[list[TemplatePart], int]:
    """Returns the parts that the known template does not have, and how many of its own are
    missing."""
    matcher = difflib.SequenceMatcher(None, known.digests, digests, autojunk=False)
    added: list[TemplatePart] = []
    missing = 0
    for kind, start, stop, first, last in matcher.get_opcodes():
        if kind != "equal":
            added += parts[first:last]
            missing += stop - start
    return added, missing
