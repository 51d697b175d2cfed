"""Patterns of JSON Schema against Node's engine: does the mask accept the same texts?

    python -m benchmarks.patterns [PATH ...] [--generated N] [--texts N] [--failures N]

PATHs are JSON Lines files; every `pattern` in them is tried, and the names of `patternProperties`.
Without a PATH, those of the committed sample. For each pattern, texts are made: some to match, the
others changed in a character or two. Node judges with the flag `u`, where the pattern is one with
it, else without. A pattern counts as enforced if the report of its schema lists nothing as checked.

What the mask writes, the validator checks: "thrown away" are texts that it refuses though Node
accepts them, "delivered" those that it lets through though Node refuses them. Each cause is shown
as the smallest pattern and text found that differ in the same way.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from benchmarks.inputs.drawn_patterns import FEATURES, draw_pattern, draw_texts
from benchmarks.inputs.smaller_cases import make_smaller
from benchmarks.inputs.tool_sets import SAMPLE
from benchmarks.processes.limits import Limited
from constrained.errors import GrammarError
from constrained.inspect.replay.schemas import InstanceTrial
from grammars.errors import SchemaError
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.schema.subschemas import is_list, is_object

TAKEN, MISSED = "accepted, Node refuses", "refused, Node accepts"
LOST, WRONG = "thrown away, Node accepts", "delivered, Node refuses"
NO_MASK = "no mask, Node accepts"
_SECONDS = 0.1  # of Node, for one text
# The interpreter of V8 looks for the end of its time whenever it goes back.
_JUDGE = r"""
const vm = require('vm');
const scope = vm.createContext({});
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const [pattern, texts, seconds] = JSON.parse(line);
  let answer = null;
  for (const flags of ['u', '']) {
    if (!flags && /\\[pP]\{|\\u\{/.test(pattern)) continue;  // they mean something else there
    try { scope.found = new RegExp(pattern, flags); } catch { continue; }
    answer = texts.map(text => {
      scope.text = text;
      try { return vm.runInContext('found.test(text)', scope, {timeout: 1000 * seconds}); }
      catch { return null; }
    });
    break;
  }
  console.log(JSON.stringify(answer));
});
"""


class Node:
    """Node's engine of regular expressions, in a process of its own."""

    def __init__(self) -> None:
        command = ["node", "--regexp-interpret-all", "-e", _JUDGE]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def judge(self, pattern: str, texts: Sequence[str]) -> list[bool | None] | None:
        """Returns which texts the pattern matches somewhere; None for a text that takes too long,
        and for all if it is no pattern of ECMA 262."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([pattern, texts, _SECONDS]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@cache
def start_node() -> Node:
    """Returns the engine of this process."""
    return Node()


def compile_mask(pattern: str) -> InstanceTrial | None:
    """Returns the mask of the strings that match; None: there is none."""
    try:
        schema = lower({"type": "string", "pattern": pattern}, close=False, only_object=False)
        return InstanceTrial(schema)
    except (SchemaError, GrammarError):
        return None


def compare(
    mask: InstanceTrial | None, texts: Sequence[str], judged: Sequence[bool | None]
) -> Iterator[tuple[str, str]]:
    """Yields what differs from Node, each time with a text."""
    for text, matches in zip(texts, judged, strict=True):
        if matches is None:
            continue
        if mask is None:
            if matches:
                yield NO_MASK, text
            continue
        report = mask.schema.report
        is_accepted = mask.find_refusal(text) is None
        if is_accepted and not matches and not report.checked:
            yield TAKEN, text
        if matches and not is_accepted and not report.narrowed:
            yield MISSED, text
        if is_accepted and mask.schema.admits(text) != matches:
            yield LOST if matches else WRONG, text


def try_out(job: tuple[str, int, int]) -> dict[str, Any]:
    """Returns how a pattern fares: its state, how many texts were tried, match and differ in what;
    and of each way to differ a small pattern and a text."""
    pattern, count, seed = job
    texts = draw_texts(pattern, count, random.Random(f"{seed} {pattern}"))
    judged = start_node().judge(pattern, texts)
    if judged is None:
        return {"state": "no ECMA 262", "counts": {}, "smallest": []}
    mask = compile_mask(pattern)
    counts = Counter(texts=len(texts) - judged.count(None), matching=judged.count(True))
    firsts: dict[str, str] = {}
    for way, text in compare(mask, texts, judged):
        counts[way] += 1
        firsts.setdefault(way, text)
    if mask is None:
        state = "refused" if counts["matching"] else "never matches"
    else:
        state = "checked" if mask.schema.report.checked else "enforced"
    smallest: list[tuple[str, Json, Json]] = []
    for way, text in firsts.items():
        smallest.append((way, *make_smaller(pattern, text, partial(differs, way))))
    return {"state": state, "counts": counts, "smallest": smallest}


def differs(way: str, pattern: Json, text: Json) -> bool:
    """Returns whether the mask of a pattern differs from Node in this way."""
    judged = start_node().judge(pattern, [text])
    return bool(judged) and way in dict(compare(compile_mask(pattern), [text], judged))


def find_patterns(value: Json) -> Iterator[str]:
    """Yields the patterns of the schemas in a value."""
    if is_list(value):
        for item in value:
            yield from find_patterns(item)
    elif is_object(value):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        if is_object(value.get("patternProperties")):
            yield from value["patternProperties"]
        for member in value.values():
            yield from find_patterns(member)


def read(paths: Sequence[str]) -> Iterator[str]:
    """Yields the patterns of all files, each once."""
    seen: set[str] = set()
    for path in map(Path, paths or sorted(SAMPLE.glob("*.jsonl"))):
        with path.open(encoding="utf-8") as lines:
            for pattern in chain.from_iterable(map(find_patterns, map(json.loads, lines))):
                if pattern not in seen:
                    seen.add(pattern)
                    yield pattern


class Tally:
    """What has become of the patterns of one origin."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.causes: dict[tuple[str, str, str], list[str]] = {}

    def add(self, pattern: str, found: dict[str, Any] | Exception | None) -> None:
        """Counts a pattern."""
        if not isinstance(found, dict):
            state = "too slow" if found is None else f"DEFECT {found!r}"
            self.causes.setdefault((state, "", ""), []).append(pattern)
            found = {"state": state.split()[0], "counts": {}, "smallest": []}
        for way, smaller, text in found["smallest"]:
            self.causes.setdefault((way, smaller, text), []).append(pattern)
        names = [name for name, used in FEATURES.items() if re.search(used, pattern)]
        for name in ("all", *(names or ["none of these"])):
            counts = self.counts.setdefault(name, Counter())
            counts.update(found["counts"])
            counts["patterns"] += 1
            counts[found["state"]] += 1

    def show(self, title: str) -> Iterator[str]:
        """Yields the table."""
        columns = ["patterns", "enforced", "checked", "refused", "texts", "matching"]
        columns += [TAKEN, MISSED, LOST, WRONG]
        yield f"| {title} | {' | '.join(columns)} |"
        yield f"|---|{'---:|' * len(columns)}"
        for name in ("all", *FEATURES, "none of these"):
            if name in self.counts:
                yield f"| {name} | {' | '.join(str(self.counts[name][c]) for c in columns)} |"
        rest = ("no ECMA 262", "never matches", "too slow", "DEFECT")
        yield ", ".join(f"{state}: {self.counts['all'][state]}" for state in rest)

    def show_causes(self) -> Iterator[str]:
        """Yields what differs, the commonest first, each with one of the patterns."""
        for (way, smaller, text), patterns in sorted(self.causes.items(), key=_rank):
            case = f"{json.dumps(smaller)} {json.dumps(text)}"
            yield f"{way}: {case}, {len(patterns)} as {json.dumps(patterns[0])}"


def _rank(cause: tuple[tuple[str, str, str], list[str]]) -> tuple[str, int, tuple[str, str, str]]:
    return cause[0][0], -len(cause[1]), cause[0]


def main() -> int:
    """Prints the tables; 1 if a text fails, 2 without Node."""
    parser = argparse.ArgumentParser(description="Compares patterns with Node's engine.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--generated", type=int, default=1000, metavar="N", help="drawn patterns")
    parser.add_argument("--texts", type=int, default=24, metavar="N", help="for each pattern")
    parser.add_argument("--failures", type=int, default=20, metavar="N", help="show so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20, help="the limit for one pattern")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    if shutil.which("node") is None:
        print("there is no `node` on the path: install Node.js to judge the patterns")
        return 2
    rng = random.Random(options.seed)
    drawn = dict.fromkeys(draw_pattern(rng) for _ in range(options.generated))
    failures = 0
    for title, patterns in (("found", [*read(options.paths)]), ("generated", [*drawn])):
        tally = Tally()
        jobs = [(pattern, options.texts, options.seed) for pattern in patterns]
        results = Limited(try_out, options.seconds, options.jobs).map(jobs)
        for pattern, found in zip(patterns, results, strict=True):
            tally.add(pattern, found)
        print("\n".join(tally.show(title)))
        print("\n".join(islice(tally.show_causes(), options.failures)))
        failures += sum(tally.counts["all"][way] for way in (TAKEN, MISSED, WRONG, "DEFECT"))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
