"""The results of `constrained doctor` for many chat templates: a table, and the CPU seconds.

    python -m benchmarks.doctor [FOLDER or ROWS.jsonl ...] [--clauses] [-j 2]

A row has the worst verdict, the format, and which of the five shapes have prompts that all begin
with the last one: `+` they do, `(+)` this project makes up for it, `-` something is read anew, `r`
the template refuses the shape; each with thinking as it is by default, then on and off where that
differs. A folder has templates (*.jinja), rows have `name` and `template`; without either, the
templates are those of llama.cpp.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from constrained.doctor.conversations import SHAPES
from constrained.doctor.examine import examine
from constrained.doctor.subject import Subject
from constrained.doctor.verdicts import Diagnosis, Verdict
from constrained.template.clauses import shorten
from examples.random_model import models_directory

HEADS = ("template", "verdict", "format", *(shape.name for shape in SHAPES), "seconds")


def read_sources(path: Path) -> Iterator[Subject]:
    """Yields the templates of a folder, or of rows, each once."""
    if path.is_dir():
        for file in sorted(path.glob("*.jinja")):
            text = file.read_text(encoding="utf-8")
            yield Subject(file.stem, text, bos_text="<s>", eos_text="</s>")
        return
    seen: set[str] = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["name"] not in seen:
            seen.add(row["name"])
            tokens = {"bos_text": row.get("bos_token", ""), "eos_text": row.get("eos_token", "")}
            yield Subject(row["name"], row["template"], **tokens)


def find_verdicts(diagnosis: Diagnosis, check: str) -> tuple[Verdict, ...]:
    """Returns the verdicts of a check."""
    for answer in diagnosis.answers:
        if answer.name == check:
            return answer.verdicts
    return ()


def show_shape(verdict: Verdict) -> str:
    """Returns a shape in a character or three."""
    facts = verdict.facts
    if "kept" not in facts:
        return "r" if "refuses" in verdict.text else "+"
    return "(+)" if facts["kept"] >= 0.999 else "-"


def describe(diagnosis: Diagnosis) -> list[str]:
    """Returns the cells of a row, but for its name and its seconds."""
    format = "none"
    for verdict in find_verdicts(diagnosis, "calls"):
        format = verdict.facts.get("format", format)
    shapes: dict[str, list[str]] = {shape.name: [] for shape in SHAPES}
    for verdict in find_verdicts(diagnosis, "cache"):
        if "shape" in verdict.facts:
            shapes[verdict.facts["shape"]].append(show_shape(verdict))
    return [str(diagnosis.level), format, *map(" ".join, shapes.values())]


def list_clauses(diagnosis: Diagnosis) -> Iterator[str]:
    """Yields the clauses that are to blame, each once."""
    lines: dict[str, None] = {}
    for verdict in find_verdicts(diagnosis, "cache"):
        breaks = verdict.facts.get("breaks", ()) if "kept" in verdict.facts else ()
        for found in breaks:
            clause = found.get("clause")
            if clause:
                tag = shorten(clause["tag"], 120)
                lines[f"    {clause['cause']}: line {clause['line']}: {tag}"] = None
    yield from lines


@dataclass(frozen=True)
class Row:
    """What is printed of a template.

    Args:
        name: of the template.
        cells: after the name.
        clauses: those that are to blame.
        seconds: of the CPU that the diagnosis took.
    """

    name: str
    cells: list[str]
    clauses: list[str]
    seconds: float


def examine_one(subject: Subject) -> Row:
    """Returns the row of a template."""
    started = time.process_time()
    diagnosis = examine(subject)
    seconds = time.process_time() - started
    return Row(subject.name, describe(diagnosis), [*list_clauses(diagnosis)], seconds)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="*", type=Path, metavar="FOLDER or ROWS.jsonl")
    parser.add_argument("--clauses", action="store_true", help="also name the clauses to blame")
    parser.add_argument("-j", "--processes", type=int, default=os.cpu_count(), metavar="N")
    options = parser.parse_args()
    sources = options.sources or [models_directory() / "templates"]
    subjects = [subject for source in sources for subject in read_sources(source)]
    begun = time.perf_counter()
    seconds: list[float] = []
    print(" | ".join(HEADS))
    with ProcessPoolExecutor(options.processes) as pool:
        for row in pool.map(examine_one, subjects):
            seconds.append(row.seconds)
            print(" | ".join([row.name, *row.cells, f"{row.seconds:.2f}"]), flush=True)
            if options.clauses:
                for line in row.clauses:
                    print(line)
    spent = time.perf_counter() - begun
    print(
        f"{len(subjects)} templates in {spent:.1f} s ({sum(seconds):.1f} s of CPU), "
        f"{max(seconds):.1f} s the slowest"
    )


if __name__ == "__main__":
    main()
