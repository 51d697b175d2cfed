"""The shortest completion of a call that is cut anywhere: the time to find it, and its length.

    python -m benchmarks.completions [PATH ...] [--calls 12] [--seed 1]

Gold calls are written in each format and cut at eight places; a call is required. Printed are, for
keys in any order and in that of the schema: ms for the first look at a new request (tables of the
grammar included), ms for each further one, characters of the completions, and how many are not
known. PATHs are JSON Lines files with `tools` and `gold` calls in each row; without one, the
committed sample.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained.tools import read_tools
from grammars.build.turn import build_turn
from grammars.errors import Error
from grammars.formats import FORMATS
from grammars.ir.completion import Completer
from grammars.render import render
from grammars.turn import Choice, KeyOrder, Policy, State, ToolCall, Turn
from grammars.wire.format import Format

CUTS = 8


class Costs:
    """What the looks at some turns came to."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.further: list[float] = []
        self.lengths: list[int] = []
        self.unknown = 0

    def look(
        self, format: Format, row: dict[str, Any], order: KeyOrder, draw: random.Random
    ) -> None:
        """Cuts the gold calls of a row; those that the format cannot write are left out."""
        calls = tuple(ToolCall(call["name"], call["arguments"]) for call in row["gold"])
        policy = Policy(Choice.REQUIRED, key_order=order)
        try:
            tools = read_tools(row["tools"])
            text = render(Turn(calls=calls), format, tools)
            grammar = build_turn(format, tools, policy, State(), {})
        except Error:
            return
        completer = Completer(grammar)
        for cut in sorted([0, *(draw.randint(0, len(text)) for _ in range(CUTS - 1))]):
            start = time.perf_counter()
            rest = completer.complete(text[:cut])
            seconds = time.perf_counter() - start
            (self.further if cut else self.first).append(seconds)
            if not isinstance(rest, str):
                self.unknown += 1
            else:
                self.lengths.append(len(rest))

    def __str__(self) -> str:
        first, further = (1e3 * statistics.median(times) for times in (self.first, self.further))
        lengths = f"{sum(self.lengths):>12,}{len(self.lengths):>9,}{self.unknown:>9}"
        return f"{first:>9.2f}{further:>9.2f}{lengths}"


def main() -> None:
    """Prints a row for each key order."""
    parser = argparse.ArgumentParser(description="What shortest completions cost.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--calls", type=int, default=12, help="gold calls for each format")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = read_rows(options.paths or sample_paths())
    rows: Sequence[dict[str, Any]] = [row for row in found if row.get("gold")]
    print(
        f"{'median ms':<12}{'first':>9}{'further':>9}{'characters':>12}{'known':>9}{'unknown':>9}"
    )
    for order in KeyOrder:
        costs, draw = Costs(), random.Random(options.seed)
        for format in FORMATS:
            for row in draw.sample(rows, min(options.calls, len(rows))):
                costs.look(format, row, order, draw)
        print(f"{order.value:<12}{costs}")


if __name__ == "__main__":
    main()
