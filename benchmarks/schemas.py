"""Tries JSON Schemas on instances: how many compile, and which valid instances the mask accepts.

    python -m benchmarks.schemas [PATH ...] [--keywords] [--misses N]

PATHs are JSON Lines files with rows `{id, schema, tests: [{data, valid}]}`; without one, the
committed sample. An instance of a schema that does not compile counts as refused by the mask.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.inputs.tool_sets import SAMPLE
from benchmarks.processes.limits import Limited
from constrained.inspect.replay.schemas import check_schemas

_PROGRESS = 500  # rows: so often, a line says how far it is
_EMPTY = {"compiles": False, "enforced": [], "checked": [], "repaired": [], "refused": []}


def read(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields the rows of all files."""
    for path in map(Path, paths or sorted(SAMPLE.glob("schemas*.jsonl"))):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def try_out(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer of `constrained schema` to that row."""
    return next(iter(check_schemas([row])))


class Tally:
    """What has become of schemas and instances so far."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.keywords: dict[str, Counter[str]] = {}
        self.refused: list[str] = []
        self.misses: dict[str, list[str]] = {"valid refused": [], "invalid accepted": []}

    def add(self, row: dict[str, Any], answer: dict[str, Any] | Exception | None) -> None:
        """Counts a row and its answer, or why there is none; None: it took too long."""
        if not isinstance(answer, dict):
            error = "too slow" if answer is None else f"DEFECT {answer!r}"
            nothing = [{"accepted": False, "delivered": False}] * len(row.get("tests", []))
            answer = {**_EMPTY, "results": nothing, "error": error}
        self.counts["schemas"] += 1
        self.counts["compiling"] += answer["compiles"]
        if not answer["compiles"]:
            why = [f"{f['pointer']} {f['keyword']}: {f['reason']}" for f in answer["refused"]]
            self.refused.append(f"{row['id']} {why or answer['error']}")
        for state in ("enforced", "checked", "repaired", "refused"):
            for keyword in {f["keyword"] for f in answer.get(state, [])}:
                self.keywords.setdefault(keyword, Counter())[state] += 1
        for number, test in enumerate(row.get("tests", [])):
            self._add_instance(row, number, test["valid"], answer["results"][number])

    def _add_instance(
        self, row: dict[str, Any], number: int, valid: bool, result: dict[str, bool]
    ) -> None:
        kind = "valid" if valid else "invalid"
        self.counts[kind] += 1
        for state in ("accepted", "delivered"):
            self.counts[f"{kind} {state}"] += result[state]
        if valid and not result["delivered"]:
            self.misses["valid refused"].append(f"{row['id']} #{number}")
        if not valid and result["accepted"]:
            delivered = " DELIVERED" if result["delivered"] else ""
            self.misses["invalid accepted"].append(f"{row['id']} #{number}{delivered}")

    def show(self) -> Iterator[str]:
        """Yields the figures, line by line."""
        n = self.counts
        lines = [
            ("schemas that compile", n["compiling"], n["schemas"]),
            ("valid instances accepted by the mask", n["valid accepted"], n["valid"]),
            ("valid instances delivered", n["valid delivered"], n["valid"]),
            ("invalid instances delivered", n["invalid delivered"], n["invalid"]),
            (
                "invalid instances rejected by the mask alone",
                n["invalid"] - n["invalid accepted"],
                n["invalid"],
            ),
        ]
        for words, count, whole in lines:
            share = f"{100 * count / whole:7.2f} %" if whole else "      - "
            yield f"{words:<46}{count:>7} of {whole:>6}{share}"
        yield from (f"refused: {line}" for line in self.refused)

    def tabulate(self) -> Iterator[str]:
        """In how many schemas each keyword is held, checked, repaired, refused; in Markdown."""
        states = ("enforced", "checked", "repaired", "refused")
        yield f"| keyword | {' | '.join(states)} |"
        yield f"|---|{'---:|' * len(states)}"
        for keyword, count in sorted(self.keywords.items()):
            cells = [str(count[state] or "") for state in states]
            name = f"`{keyword}`" if keyword else "(the whole)"
            yield f"| {name} | {' | '.join(cells)} |"


def main() -> int:
    """Prints the figures; 1 if an invalid instance would be delivered."""
    parser = argparse.ArgumentParser(description="Tries JSON Schemas out on instances.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--keywords", action="store_true", help="what becomes of each keyword")
    parser.add_argument("--misses", type=int, default=0, metavar="N", help="name so many misses")
    parser.add_argument("--seconds", type=float, default=20, help="the limit for one schema")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    rows = list(read(options.paths))
    tally = Tally()
    run = Limited(try_out, options.seconds, options.jobs)
    for number, (row, answer) in enumerate(zip(rows, run.map(rows), strict=True), 1):
        tally.add(row, answer)
        if number % _PROGRESS == 0:
            print(f"{number} of {len(rows)}", file=sys.stderr)
    print("\n".join(tally.show()))
    if options.keywords:
        print("\n".join(tally.tabulate()))
    for kind, misses in tally.misses.items() if options.misses else ():
        print(*(f"{kind}: {miss}" for miss in misses[: options.misses]), sep="\n")
    return 1 if tally.counts["invalid delivered"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
