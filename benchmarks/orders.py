"""Gold calls in their own order and with all keys reversed, and with an argument nobody declared.

    python -m benchmarks.orders [PATH ...] [--format hermes]

Every gold call that its JSON Schema admits is written in the format, in both orders, and run
through the grammar of its tool; then again with one more argument, in front of and after the
others, where the tool does not say that there may be any. PATHs are JSON Lines files with `tools`
and `gold` calls in each row; without one, the committed sample. Tools of rows without gold calls
are compiled.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema_rs

from benchmarks.inputs.sources import TEMPLATES, read_teaching
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained.mask.matcher import Matcher
from constrained.replay.replay_context import byte_tokenizer
from constrained.tools.shapes import read_tools
from grammars.build.turn import build_grammar
from grammars.errors import Error, RenderError
from grammars.render import render
from grammars.turn import Choice, Policy, Tool, ToolCall, Turn
from grammars.wire.format import Format

UNDECLARED = "undeclared_argument"


def reverse(value: Any) -> Any:
    """Returns the same value with the keys of all objects reversed."""
    if isinstance(value, list):
        return [reverse(item) for item in value]
    if isinstance(value, dict):
        return {key: reverse(value[key]) for key in reversed(value)}
    return value


class Trial:
    """One tool in a format."""

    def __init__(self, format: Format, tool: Tool):
        self._format, self._tool = format, tool
        self._vocabulary, tokenizer = byte_tokenizer(format.atoms)
        self._ids = self._vocabulary.find_markers(format.texts)
        grammar = build_grammar(format, [tool], Policy(Choice.REQUIRED), None, self._ids)
        self._matcher = Matcher.compile(tokenizer, grammar)

    def accepts(self, arguments: dict[str, Any], *, undeclared: bool = False) -> bool:
        """Does the grammar take a call with these arguments?"""
        call = Turn(calls=(ToolCall(self._tool.name, arguments),))
        text = render(call, self._format, () if undeclared else [self._tool])
        tokens, matcher = self._vocabulary.encode_marked(text, self._ids), self._matcher.fork()
        return matcher.takes(tokens) and matcher.is_complete


def try_row(row: dict[str, Any], format: Format) -> Iterator[str]:
    """Yields what became of each gold call; and of each tool that does not compile."""
    trials: dict[str, tuple[Trial, Tool]] = {}
    for given in row["tools"]:
        try:
            (tool,) = read_tools([given])
            trials[tool.name] = Trial(format, tool), tool
        except Error as e:
            yield f"refused tool: {e}"
        else:
            yield "tools"
    for call in row.get("gold") or ():
        if call["name"] in trials:
            yield from _try_call(*trials[call["name"]], call["arguments"])


def _try_call(trial: Trial, tool: Tool, arguments: dict[str, Any]) -> Iterator[str]:
    if not jsonschema_rs.validator_for(tool.schema.source).is_valid(arguments):
        yield "calls that their schema refuses"
        return
    if not tool.schema.admits(arguments):
        yield "calls with undeclared arguments"
        return
    more = {UNDECLARED: 1}
    try:
        yield "own order" if trial.accepts(arguments) else f"own order refused: {arguments}"
        yield "reversed" if trial.accepts(reverse(arguments)) else f"reversed refused: {arguments}"
        if not any(node.find(UNDECLARED) for node in tool.schema.objects):
            both = ({**arguments, **more}, {**more, **arguments})
            taken = [trial.accepts(each, undeclared=True) for each in both]
            yield f"undeclared taken: {arguments}" if any(taken) else "undeclared refused"
    except RenderError:
        yield "calls that the format cannot write"


def main() -> int:
    """Prints the counts; 1 if a call was refused, or an undeclared argument was not."""
    parser = argparse.ArgumentParser(description="Orders of keys, and undeclared arguments.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--format", choices=TEMPLATES, default="hermes")
    options = parser.parse_args()
    format = read_teaching(options.format).format
    rows = read_rows(options.paths or sample_paths())
    found = Counter(outcome for row in rows for outcome in try_row(row, format))
    return _print(found)


def _print(found: Counter[str]) -> int:
    faults: Sequence[str] = [outcome for outcome in found if ": " in outcome]
    for outcome, count in found.items():
        if outcome not in faults:
            print(f"{outcome:<36}{count:>7}")
    for fault in faults:
        print(fault[:200])
    print(f"{'faults':<36}{len(faults):>7}")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
