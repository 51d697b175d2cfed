"""Damaged inputs for everything that reads untrusted data: a value or one of our errors must come
soon.

    python -m benchmarks.fuzz [TARGET ...] [--seconds 300] [--seed 0] [--limit 60]

Targets: requests of all dialects, JSON Schemas, grammars (Lark, GBNF, expressions), chat templates
and their formats, GGUF files, snapshot files, descriptions of formats. Hypothesis draws good inputs
with a few changes; each round of a target runs in a process of its own with a seed of its own. A
finding is an exception that is no `Error`, a status of 500 and above, the end of the process, or an
input that takes longer than the limit. Each is printed with its seed and its input, which
Hypothesis has made as small as it can; of an input that ends the process or takes too long, the
input as it was, and where the process was is on stderr. The same again:

    python -m benchmarks.fuzz TARGET --seed SEED --rounds 1

The code is 1 if there are findings.
"""

import argparse
import faulthandler
import math
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from benchmarks.fuzzing.inputs import show
from benchmarks.fuzzing.targets import TARGETS, FuzzTarget, try_input
from benchmarks.processes.limits import Limited

EXAMPLES = 300  # a round
IGNORED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
PHASES = (Phase.generate, Phase.shrink)


@dataclass(frozen=True)
class Finding:
    """An input that was neither read nor refused.

    Args:
        value: the smallest that was found.
        error: what it raised.
    """

    value: Any
    error: BaseException


@dataclass(frozen=True)
class Round:
    """What a number of inputs came to."""

    accepted: int
    refused: int
    finding: Finding | None = None


def search(
    target: FuzzTarget,
    number: int,
    *,
    examples: int = EXAMPLES,
    limit: float = 0,
    note: Path | None = None,
) -> Round:
    """Tries inputs until one is a finding.

    Args:
        target: reads them.
        number: the seed.
        examples: how many.
        limit: seconds for each; the process ends with a traceback when they are over. 0: any time.
        note: a file for the input under way, for when the process ends.
    """
    counts = Counter[bool]()
    failed: list[Any] = []

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        print_blob=False,
        phases=PHASES,
        report_multiple_bugs=False,
        suppress_health_check=IGNORED,
    )
    @given(target.inputs)
    def check(value: Any) -> None:
        if note is not None:
            note.write_text(show(value), "utf-8")
        if limit:
            faulthandler.dump_traceback_later(limit, exit=True)
        failed.append(value)
        counts[try_input(target, value)] += 1
        failed.pop()

    try:
        check()
    except BaseException as error:
        if not failed:
            raise
        # Hypothesis ends with the smallest one.
        return Round(counts[True], counts[False], Finding(failed[-1], error))
    finally:
        faulthandler.cancel_dump_traceback_later()
    return Round(counts[True], counts[False])


def run_round(name: str, number: int, options: argparse.Namespace) -> Round | str:
    """Tries inputs in a process of its own; returns what is to be said of a finding."""
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "input"
        job = (name, number, options.examples, options.limit, note)
        [outcome] = Limited(_run_child, math.inf, jobs=1).map([job])
        if isinstance(outcome, Round):
            return outcome
        text = note.read_text("utf-8") if note.exists() else ""
    return outcome or f"the process ended\ninput: {text}"


def _run_child(job: tuple[str, int, int, float, Path]) -> Round | str:
    name, number, examples, limit, note = job
    done = search(TARGETS[name], number, examples=examples, limit=limit, note=note)
    if done.finding is None:
        return done
    error = "".join(traceback.format_exception(done.finding.error, limit=-6)).rstrip()
    return f"{error}\ninput: {show(done.finding.value)}"


def main() -> int:
    """Tries the targets by turns; prints findings, and how many inputs were read and refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", choices=[[], *TARGETS])
    parser.add_argument("--seconds", type=float, default=300, help="in all")
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="of each target")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="of a round")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one input")
    options = parser.parse_args()
    names = options.targets or [*TARGETS]
    end = time.monotonic() + options.seconds
    accepted, refused = Counter[str](), Counter[str]()
    found = 0
    numbers = range(options.seed, options.seed + options.rounds)
    for number, name in ((number, name) for number in numbers for name in names):
        if time.monotonic() >= end:
            break
        done = run_round(name, number, options)
        if isinstance(done, str):
            found += 1
            print(f"FOUND {name}, seed {number}\n{done}\n", flush=True)
            continue
        accepted[name] += done.accepted
        refused[name] += done.refused
    for name in names:
        print(f"{name}: {accepted[name]} inputs read, {refused[name]} refused")
    print(f"{found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
