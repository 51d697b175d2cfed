"""The cost of a grammar: of a new request, of the same again, and of each mask in calls.

    python -m benchmarks.compiling [PATH ...] [--vocabulary NAME] [--calls 200]

For 5 and for 100 tools, in a JSON format and in one of raw text: medians of ms to lower the
schemas, to build the grammar and to compile it with its first mask, and of the same request again,
when it is known. Then ms for a mask while gold calls are written. PATHs are JSON Lines files with
`tools` and `gold` calls in each row; without one, the committed sample.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.inputs.stage import Stage, stage
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained.mask.matcher import Matcher
from constrained.model.compile.grammar_compiler import GrammarCompiler, GrammarSource
from constrained.prompt.tools.shapes import as_openai, forget_schemas, read_tools
from grammars.errors import Error
from grammars.parse.render import render
from grammars.turn import Choice, Policy, State, ToolCall, Turn
from grammars.turn_grammar.turn import build_grammar

FORMATS = ("hermes", "qwen3_coder")
VOCABULARIES = ("bytes", "llama-spm", "qwen2", "gemma-4")
SIZES = {5: 20, 100: 5}  # tools -> sets of so many


def _clock(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    made = action()
    return time.perf_counter() - start, made


def measure(place: Stage, tools: Sequence[Any]) -> tuple[float, float]:
    """Returns the seconds that a request with these tools takes, new and known."""
    compiler, policy = place.model.compiler, Policy(Choice.REQUIRED)
    compiler.tokenizer  # noqa: B018  built once for each vocabulary
    matchers: dict[str, Matcher] = {}
    grammars = GrammarCompiler(compiler.vocabulary, tuple(compiler.markers))

    def compile_all() -> Matcher:
        lowered = tuple(read_tools(tools))
        source = GrammarSource(place.teaching.format, tools=lowered, policy=policy, state=State())
        grammar = grammars.find_completer(source).grammar.lark
        if grammar not in matchers:
            matchers[grammar] = Matcher.compile(compiler.tokenizer, grammar)
        return matchers[grammar].fork()

    forget_schemas()
    return _clock(compile_all)[0], statistics.median(_clock(compile_all)[0] for _ in range(5))


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
    return _clock(matcher.compute_mask)[0]


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description="What grammars and masks cost.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--vocabulary", choices=VOCABULARIES, default="bytes")
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    rows = list(read_rows(options.paths or sample_paths()))
    places = {name: stage(name, f"{options.vocabulary}, token") for name in FORMATS}
    columns = ("new", "again")
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
    costs = zip(*(measure(place, tools) for tools in sets), strict=True)
    print(f"{name:<34}" + "".join(f"{1000 * statistics.median(times):>9.2f}" for times in costs))


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
