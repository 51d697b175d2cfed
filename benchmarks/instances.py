"""Searches for valid instances of JSON Schemas that the mask refuses, and for invalid ones that it
accepts although its report claims to enforce the whole schema.

    python -m benchmarks.instances [PATH ...] [--count N] [--misses N]

PATHs are as for `benchmarks.schemas`: JSON Lines files with rows `{id, schema, tests?: [{data,
valid}]}`, or checkouts. Without a PATH, the committed sample. For each schema N
instances are drawn, besides those of the row that are valid; each is written as Python, JavaScript
and Go write it. A refusal is silent if the report of the schema lists nothing as refused or
narrowed. Then each is changed in one place, some times over.
"""

import argparse
import json
import re
from collections import Counter
from dataclasses import asdict
from typing import Any

from benchmarks.inputs.changed_instances import change_instances
from benchmarks.inputs.drawn_instances import draw_instances
from benchmarks.processes.limits import Limited
from benchmarks.schemas import read
from constrained.errors import GrammarError
from constrained.inspect.replay.instances import InstanceTrial, spell_plain
from grammars.errors import SchemaError
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.schema.numbers import normalise_numbers

_COUNT = 30
_CHANGES = 5  # of each instance
_GO_ESCAPES = re.compile("[<>&\u2028\u2029]")
_EXPONENT = re.compile(r"e([+-])0+")


def write_python(value: Json) -> str:
    """`json.dumps`: characters beyond ASCII by their numbers."""
    return json.dumps(value)


def write_javascript(value: Json) -> str:
    """`JSON.stringify`: a whole number below 1e21 has no point and no exponent."""
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        return _EXPONENT.sub(r"e\1", repr(value))
    return spell_plain(value)


def write_go(value: Json) -> str:
    """`json.Marshal`: as JavaScript, and what HTML or JavaScript could misread by its number."""
    text = write_javascript(value)
    if isinstance(value, str):
        return _GO_ESCAPES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    return text


WRITERS = {
    "plain": spell_plain,
    "Python": write_python,
    "JavaScript": write_javascript,
    "Go": write_go,
}


def try_out(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the refusals of one row: for each instance and writer the place; and the invalid
    instances that are taken. `told` says that the report speaks of values that are refused."""
    tests = row.get("tests", [])
    try:
        schema = lower(row["schema"], close=False, only_object=False)
        trial = InstanceTrial(schema)
    except (SchemaError, GrammarError):
        return {"instances": 0, "told": True, "compiles": False, "misses": [], "loose": []}
    given = [test["data"] for test in tests if test["valid"] and schema.admits(test["data"])]
    misses: list[dict[str, Any]] = []
    drawn = list(filter(schema.admits, draw_instances(schema.source, row["count"])))
    for instance in [*given, *drawn]:
        for writer, spell in WRITERS.items():
            place = trial.find_refusal(instance, spell)
            if place is not None:
                misses.append({"writer": writer, "value": instance, **asdict(place)})
    loose: list[Any] = []
    if not schema.report.checked:
        loose += _find_loose(trial, [*given, *drawn])
    return {
        "instances": len(given) + len(drawn),
        "told": bool(schema.report.narrowed),
        "compiles": True,
        "misses": misses,
        "loose": loose,
    }


def _find_loose(trial: InstanceTrial, instances: list[Any]) -> list[Any]:
    """Returns the changed instances that the mask takes though they do not fit, not even with the
    numbers that the schema means."""
    loose: list[Any] = []
    for number, instance in enumerate(instances):
        for changed in change_instances(instance, _CHANGES, seed=number):
            fits = trial.schema.admits(normalise_numbers(changed, trial.schema))
            if not fits and trial.find_refusal(changed) is None:
                loose.append(changed)
    return loose


def main() -> int:
    """Prints the table; 1 if an instance written plainly is refused silently, or an invalid one
    taken."""
    parser = argparse.ArgumentParser(description="Searches for valid instances that are refused.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--count", type=int, default=_COUNT, metavar="N", help="draws per schema")
    parser.add_argument("--misses", type=int, default=0, metavar="N", help="show so many places")
    parser.add_argument("--seconds", type=float, default=60, help="the limit for one schema")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    rows = [{**row, "count": options.count} for row in read(options.paths)]
    counts = Counter[str]()
    shown: list[str] = []
    for row, found in zip(
        rows, Limited(try_out, options.seconds, options.jobs).map(rows), strict=True
    ):
        counts["schemas"] += 1
        if not isinstance(found, dict):
            counts["slow" if found is None else "failed"] += 1
            shown.append(f"{row['id']}: {found!r}")
            continue
        counts["compiling"] += found["compiles"]
        counts["instances"] += found["instances"]
        counts["loose"] += len(found["loose"])
        shown += [f"{row['id']} taken though invalid: {json.dumps(v)}" for v in found["loose"]]
        for miss in found["misses"]:
            state = "told" if found["told"] else "silent"
            counts[f"{miss['writer']} {state}"] += 1
            shown.append(
                f"{row['id']} {state} {miss['writer']} {miss['pointer'] or 'the root'} at byte "
                f"{miss['offset']}: {miss['found']!r}, expected {miss['expected']}"
            )
    print(f"schemas {counts['schemas']}, compiling {counts['compiling']}, ", end="")
    print(f"too slow {counts['slow']}, failed {counts['failed']}; instances {counts['instances']}")
    print(f"{'written as by':<16}{'refused silently':>18}{'refused, reported':>19}")
    for writer in WRITERS:
        print(f"{writer:<16}{counts[f'{writer} silent']:>18}{counts[f'{writer} told']:>19}")
    print(f"changed instances that are invalid and taken: {counts['loose']}")
    print(*shown[: options.misses], sep="\n")
    return 1 if counts["plain silent"] or counts["loose"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
