"""Reads raw argument texts by their schemas and compares with the values that they should become.

    python -m benchmarks.coercion [PATH]

PATH is a JSON Lines file of `{id, category, schema, raw_text, expected, expect_invalid,
confidence}`; without one, the committed rows. Values are compared with their types (1 is not 1.0).
Where the right answer is a matter of judgement, a row may differ for a reason that this module
gives.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.inputs.tool_sets import SAMPLE
from grammars.errors import CoerceError, SchemaError
from grammars.lowering.lower import lower
from grammars.schema.nodes import are_same
from grammars.spelling.coerce import coerce

ROWS = SAMPLE / "coercion_cases.jsonl"
REASONS = {
    "c089": "`5.` is no number in JSON, and it is what is left of 5.25 where a text is cut",
    "c144": "a JSON string is no array: to look into it would be to change the value",
}
"""Rows of which we judge otherwise."""
VERDICTS = ("right", "judged otherwise", "wrong")


def read(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file."""
    with Path(path).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def convert(row: dict[str, Any]) -> tuple[bool, Any]:
    """Is the text refused? And the value, or why."""
    try:
        return False, coerce(row["raw_text"], lower(row["schema"], only_object=False))
    except (CoerceError, SchemaError) as e:
        return True, str(e)


def judge(row: dict[str, Any]) -> str:
    """Judges a row: one of `VERDICTS`."""
    refused, value = convert(row)
    if refused is row["expect_invalid"] and (refused or are_same(value, row["expected"])):
        return "right"
    judgement = row["confidence"] == "judgement" and row["id"] in REASONS
    return "judged otherwise" if judgement else "wrong"


def report(rows: Iterable[dict[str, Any]]) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Returns how many rows of each category got each verdict, and a line for each that is not
    right."""
    counts, lines = Counter[tuple[str, str]](), list[str]()
    for row in rows:
        verdict = judge(row)
        counts[f"{row['category']} ({row['confidence']})", verdict] += 1
        if verdict != "right":
            given = convert(row)[1]
            why = REASONS.get(row["id"], "")
            text, wanted = row["raw_text"], json.dumps(row["expected"])
            lines.append(f"{row['id']} {verdict}: {text!r} -> {given!r}, not {wanted}. {why}")
    return counts, lines


def main() -> int:
    """Prints a table; 1 if a row is wrong."""
    parser = argparse.ArgumentParser(description="Reads raw argument texts by their schemas.")
    parser.add_argument("path", nargs="?", default=ROWS)
    counts, lines = report(read(parser.parse_args().path))
    print(f"{'category':<24}" + "".join(f"{verdict:>18}" for verdict in VERDICTS))
    for category in sorted({category for category, _ in counts}):
        print(f"{category:<24}" + "".join(f"{counts[category, v]:>18}" for v in VERDICTS))
    totals = [sum(n for (_, v), n in counts.items() if v == verdict) for verdict in VERDICTS]
    print(f"{'all':<24}" + "".join(f"{total:>18}" for total in totals))
    print("\n".join(lines))
    return 1 if totals[-1] else 0


if __name__ == "__main__":
    raise SystemExit(main())
