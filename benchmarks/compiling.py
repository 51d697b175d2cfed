"""The cost of a grammar: to build it, to compile it, and a mask for each token of a call.

    python -m benchmarks.compiling [PATH ...] [--vocabulary NAME] [--calls 200]

For 5 and for 100 tools, in a JSON format and in one of raw text: medians of ms to lower the
schemas, to build the grammar, to compile it with its first mask, of all three, and of the whole
request again, when it is known. Then ms for a mask while gold calls are written. PATHs are JSON
Lines files with `tools` and `gold` calls in each row; without one, the committed sample.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.inputs.stage import Stage, stage
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained.mask.matcher import Matcher
from constrained.model.compile.grammar_cache import GrammarCache, GrammarSource
from constrained.prompt.tools.shapes import as_openai, forget_schemas, read_tools
from grammars.errors import Error
from grammars.parse.render import render
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_grammar

FORMATS = ("hermes", "qwen3_coder")
VOCABULARIES = ("bytes", "llama-spm", "qwen2", "gemma-4")
SIZES = {5: 20, 100: 5}  # tools -> sets of so many


@dataclass(frozen=True)
class Costs:
    """Seconds for one set of tools."""

    lowering: float
    building: float
    compiling: float
    again: float

    @property
    def whole(self) -> float:
        """All that a new request takes."""
        return self.lowering + self.building + self.compiling


def _clock(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    made = action()
    return time.perf_counter() - start, made


def measure(place: Stage, tools: Sequence[Any]) -> Costs:
    """Returns the costs of these tools."""
    compiler, policy = place.model.compiler, Policy(Choice.REQUIRED)
    compiler.tokenizer  # noqa: B018  built once for each vocabulary
    format, markers = place.teaching.format, compiler.markers
    forget_schemas()
    lowering, lowered = _clock(lambda: read_tools(tools))
    building, grammar = _clock(lambda: build_grammar(format, lowered, policy, None, markers))
    compiling, known = _clock(lambda: Matcher.compile(compiler.tokenizer, grammar))
    grammars, matchers = GrammarCache(markers), {grammar: known}

    def find(lowered: Sequence[Tool]) -> Completer:
        source = GrammarSource(format, tools=tuple(lowered), policy=policy, state=State())
        return grammars.find(source)

    find(lowered)

    def repeat() -> Matcher:
        found = find(read_tools(tools))
        return matchers[found.grammar.lark].fork()

    again = statistics.median(_clock(repeat)[0] for _ in range(5))
    return Costs(lowering, building, compiling, again)


def pick_sets(rows: Sequence[dict[str, Any]], size: int) -> Iterator[list[Any]]:
    """Sets of different tools."""
    distinct = {tool["function"]["name"]: tool for row in rows for tool in as_openai(row["tools"])}
    tools, draw = list(distinct.values()), random.Random(0)
    for _ in range(SIZES[size]):
        yield draw.sample(tools, min(size, len(tools)))


def time_masks(place: Stage, row: dict[str, Any]) -> list[float]:
    """Returns the seconds for each mask of the gold calls of a row; [] where the grammar does not
    take them."""
    compiler, format = place.model.compiler, place.teaching.format
    tools = read_tools(row["tools"])
    calls = tuple(ToolCall(call["name"], call["arguments"]) for call in row["gold"])
    text = render(Turn(calls=calls), format, tools)
    tokens = compiler.vocabulary.encode_marked(text, compiler.markers)
    grammar = build_grammar(format, tools, Policy(Choice.REQUIRED), None, compiler.markers)
    matcher = Matcher.compile(compiler.tokenizer, grammar)
    if matcher.count_accepted(tokens) < len(tokens):
        return []
    return [_step(matcher, token) for token in tokens]


def _step(matcher: Matcher, token: int) -> float:
    matcher.commit(token)
    return _clock(matcher.prepare)[0]


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description="What grammars and masks cost.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--vocabulary", choices=VOCABULARIES, default="bytes")
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    rows = list(read_rows(options.paths or sample_paths()))
    places = {name: stage(name, f"{options.vocabulary}, token") for name in FORMATS}
    columns = ("lower", "build", "compile", "all", "again")
    print(f"{'ms, median':<34}" + "".join(f"{column:>9}" for column in columns))
    for name, place in places.items():
        for size in SIZES:
            sets = list(pick_sets(rows, size))
            _print_costs(f"{name}, {len(sets[0])} tools", place, sets)
    gold = [row for row in rows if row.get("gold")][: options.calls]
    print(f"\n{'ms for a mask':<34}" + "".join(f"{c:>9}" for c in ("mean", "p50", "p99", "masks")))
    for name, place in places.items():
        _print_masks(name, place, gold)


def _print_costs(name: str, place: Stage, sets: Sequence[list[Any]]) -> None:
    costs = [measure(place, tools) for tools in sets]
    rows = ([c.lowering, c.building, c.compiling, c.whole, c.again] for c in costs)
    medians = (statistics.median(column) for column in zip(*rows, strict=True))
    print(f"{name:<34}" + "".join(f"{1000 * median:>9.2f}" for median in medians))


def _print_masks(name: str, place: Stage, rows: Sequence[dict[str, Any]]) -> None:
    seconds: list[float] = []
    for row in rows:
        try:
            seconds += time_masks(place, row)
        except Error:  # the format cannot write it
            continue
    values = 1000 * np.array(seconds or [0])
    cells = (values.mean(), *np.percentile(values, [50, 99]))
    print(f"{name:<34}" + "".join(f"{c:>9.3f}" for c in cells) + f"{len(seconds):>9}")


if __name__ == "__main__":
    main()
