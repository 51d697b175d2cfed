"""The tables of docs/field.md, from the rows of `python -m benchmarks.field`.

python -m benchmarks.field.table benchmarks/inputs/field.jsonl
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.field.rows import SEVERITIES, read_rows

COLUMNS = tuple(SEVERITIES.values())

DISPUTED = {
    "a call in the reasoning is reported": "parsers end a thought there on purpose",
    "escapes are changed": "whether strings have escapes is not documented",
}
"""Kinds of findings that are not counted, and why."""
END = "<|im_end|>"
UNWRITABLE = "UnwritableError"
"""The error for a text that no model can write, since the server's grammar does not permit it."""

Row = Mapping[str, Any]


def is_counted(row: Row) -> bool:
    """Returns whether a finding is neither disputed nor about white space between two calls, nor
    about a text that cannot be written, nor about a recorded turn with the end token, which servers
    leave out."""
    if "kinds" not in row:
        return True
    if UNWRITABLE in row.get("what", ""):
        return False
    if set(row["kinds"]) & DISPUTED.keys() or END in row.get("text", ""):
        return False
    if row.get("what") != "text that stands before a call comes after it":
        return True
    opened = next(i for i, event in enumerate(row["got"]) if event["event"] == "CallOpened")
    late = [event["text"] for event in row["got"][opened:] if event["event"] == "ContentDelta"]
    return bool("".join(late).strip())


def write_tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yields a table for each project: a line for each parser, with the number of its findings of
    each severity, in each version."""
    for project in _list("project", rows):
        own = [row for row in rows if row["project"] == project]
        versions = _list("version", own)
        # Without blanks: a row is one word.
        yield f"|{project} {'/'.join(versions)}|{'|'.join(COLUMNS)}|"
        yield "|---" * (len(COLUMNS) + 1) + "|"
        clean: list[str] = []
        for parser, format in sorted({(row["parser"], row["format"]) for row in own}):
            of_parser = [row for row in own if (row["parser"], row["format"]) == (parser, format)]
            if any("severity" in row for row in of_parser):
                cells = [_write_cell(of_parser, severity, versions) for severity in COLUMNS]
                yield f"|{parser}|{'|'.join(cells)}|"
            elif any("findings" in row for row in of_parser):
                clean.append(parser)
        yield ""
        if clean:
            yield f"Without findings: {', '.join(clean)}."
            yield ""


def _write_cell(rows: Sequence[Row], severity: str, versions: Sequence[str]) -> str:
    counts: list[str] = []
    for version in versions:
        found = [row for row in rows if row["version"] == version]
        count = sum(row.get("severity") == severity for row in found)
        counts.append(str(count) if any("findings" in row for row in found) else "-")
    return "" if set(counts) <= {"0", "-"} else "/".join(counts)


def write_sums(rows: Sequence[Row]) -> Iterator[str]:
    """Yields a line for each version of a project: parsers, seconds, findings of each kind."""
    for project in _list("project", rows):
        own = [row for row in rows if row["project"] == project]
        for version in _list("version", own):
            of_version = [row for row in own if row["version"] == version]
            run = [row for row in of_version if "findings" in row]
            failed = [row["error"] for row in of_version if "error" in row]
            kinds = Counter(row["kinds"][0] for row in of_version if "kinds" in row)
            seconds = sum(row["seconds"] for row in run)
            line = f"{project} {version}: {len(run)} parsers, {seconds} s, {kinds.total()} findings"
            yield f"{line}; {len(failed)} not run: {Counter(failed)}"
            yield f"  {dict(kinds.most_common())}"


def write_examples(rows: Sequence[Row]) -> Iterator[str]:
    """Yields the shortest finding of each kind."""
    shortest: dict[str, Row] = {}
    for row in rows:
        for kind in row.get("kinds", ())[:1]:
            if kind not in shortest or len(_join(row)) < len(_join(shortest[kind])):
                shortest[kind] = row
    counts: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        for kind in row.get("kinds", ())[:1]:
            counts[kind].add((row["project"], row["parser"]))
    for kind, row in sorted(shortest.items(), key=lambda item: -len(counts[item[0]])):
        shown = row.get("chunks") or row.get("text")
        yield f"{kind}: {len(counts[kind])} parsers; {row['project']} {row['parser']}"
        yield f"  {shown!r} -> {json.dumps(row['got'], ensure_ascii=False)}"


def _join(row: Row) -> str:
    return row.get("text") or "".join(row.get("chunks", ()))


def _list(key: str, rows: Sequence[Row]) -> list[str]:
    return sorted({row[key] for row in rows})


def main() -> None:
    """Prints the tables, the sums and examples."""
    rows = list(filter(is_counted, read_rows(Path(sys.argv[1]))))
    for write in (write_tables, write_sums, write_examples):
        print("\n".join(write(rows)), end="\n\n")


if __name__ == "__main__":
    main()
