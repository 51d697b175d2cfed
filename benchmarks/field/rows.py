"""Rows of `python -m benchmarks.field` in few bytes, and back: what several versions have in common
is one row, and a text that was cut into characters is written once.

    python -m benchmarks.field.rows field.jsonl > benchmarks/inputs/field.jsonl
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

CHARACTERS = "characters"
SEVERITIES = {
    "a call is lost, added or cannot be run": "call",
    "a wrong value": "value",
    "text is lost or wrong": "text",
    "order, ids or events of the stream": "order",
}
_LEFT_OUT = ("id", "about", "reproduce", "cause", "row", "check", "claims", "whole")

Row = Mapping[str, Any]


def pack(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Returns the rows without what follows from the others, each with its `versions`."""
    packed: dict[str, dict[str, Any]] = {}
    for row in rows:
        kept = {key: value for key, value in row.items() if key not in _LEFT_OUT}
        version, seconds = kept.pop("version"), kept.pop("seconds", None)
        chunks = kept.get("chunks", ())
        if chunks and all(len(chunk) == 1 for chunk in chunks):
            kept |= {"text": "".join(chunks), "chunks": CHARACTERS}
        if "severity" in kept:
            kept["severity"] = SEVERITIES.get(kept["severity"], kept["severity"])
        if kept.get("what", "").endswith(kept.get("kinds", ["?"])[0]):
            del kept["what"]
        if isinstance(kept.get("tools"), list):
            functions = [tool["function"] for tool in kept["tools"]]
            kept["tools"] = {
                one["name"]: one["parameters"].get("properties", {}) for one in functions
            }
        if isinstance(kept.get("got"), list):
            kept["got"] = list(_join_events(kept["got"]))
        one = packed.setdefault(json.dumps(kept, sort_keys=True), kept | {"versions": {}})
        one["versions"][version] = seconds
    return list(packed.values())


def _join_events(events: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yields events, those of one kind that follow each other as one."""
    last: dict[str, Any] = {}
    for event in events:
        shown = {key: value for key, value in event.items() if key != "boundaries"}
        if last and "text" in last and _is_continued(last, shown):
            last["text"] += shown["text"]
            continue
        if last:
            yield last
        last = shown
    if last:
        yield last


def _is_continued(event: Row, other: Row) -> bool:
    return all(event.get(key) == other.get(key) for key in ("event", "index"))


def unpack(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yields a row for each version. Tools stay a dictionary of names and properties."""
    for row in rows:
        one = dict(row)
        if one.get("chunks") == CHARACTERS:
            one["chunks"] = list(one["text"])
        for version, seconds in one.pop("versions").items():
            yield one | {"version": version, "seconds": seconds}


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file, packed or not."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield from unpack([row] if "versions" in row else pack([row]))


def main() -> None:
    """Prints the rows of a file, packed."""
    for row in pack(read_rows(Path(sys.argv[1]))):
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
