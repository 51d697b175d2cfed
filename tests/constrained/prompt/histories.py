"""Conversations that carry earlier turns back: how many tokens of each prompt are new to the model.

No model runs: each turn is what a model may write, spelled in the model's way and kept as tokens;
then the client sends it back verbatim, without its reasoning, or with its arguments spelled anew:
keys in another order, whole numbers as 1.0.
"""

import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.inputs.sources import read_teaching
from benchmarks.inputs.stage import real_vocabulary
from benchmarks.inputs.tool_sets import read_rows
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.compile.compiler import Compiler
from constrained.prompt.job import Job, Recall
from grammars.parse.render import render
from grammars.turn import Start, ToolCall, Turn
from grammars.wire.format import count_common

WORDS = "amber birch cedar delta ember fjord grove heath inlet jetty knoll lagoon".split()
MODES = ("verbatim", "no reasoning", "re-spelled")


@dataclass(frozen=True)
class Row:
    """What a conversation took: medians over its turns, but for the first; and why prompts took
    over no turn, with their number."""

    format: str
    what: str
    turns: int
    spliced: int
    prompt: int
    new: int
    computed: int
    plain: int
    missed: int


def offer(path: Path, size: int = 16_000) -> list[dict[str, Any]]:
    """Tools of about so many characters, with arguments that are easily made up."""
    tools, written = list[dict[str, Any]](), 0
    for row in read_rows([path]):
        for tool in row["tools"]:
            properties = tool["function"]["parameters"]["properties"]
            if written < size and sum(p.get("type") in VALUES for p in properties.values()) > 1:
                tools.append(tool)
                written += len(json.dumps(tool))
    return tools


VALUES: dict[str, Any] = {
    "string": lambda draw: " ".join(draw.sample(WORDS, 3)),
    "integer": lambda draw: draw.randrange(100),
    "boolean": lambda draw: draw.random() < 0.5,
}


def make_turn(tools: Sequence[dict[str, Any]], number: int, draw: random.Random) -> Turn:
    """Returns a thought and a call of some tool."""
    function = draw.choice(tools)["function"]
    properties = function["parameters"]["properties"].items()
    known = [(k, p["type"]) for k, p in properties if p.get("type") in VALUES and "enum" not in p]
    arguments = {key: VALUES[kind](draw) for key, kind in known}
    thought = f"Step {number}: " + " ".join(draw.sample(WORDS, 8))
    call = ToolCall(function["name"], arguments, id=f"callnr{number:03}")
    return Turn(reasoning=thought, calls=(call,))


def show(turn: Turn, mode: str) -> dict[str, Any]:
    """Returns the turn as the client sends it back."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.content}
    if mode == "verbatim" and turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    calls = list[Any]()
    for call in turn.calls:
        arguments: Any = call.arguments
        if mode == "re-spelled":
            turned = {k: _respell(v) for k, v in reversed(call.arguments.items())}
            arguments = json.dumps(turned, separators=(",", ":"))
        function = {"name": call.name, "arguments": arguments}
        calls.append({"id": call.id, "type": "function", "function": function})
    return message | ({"tool_calls": calls} if calls else {})


def _respell(value: Any) -> Any:
    return float(value) if type(value) is int else value


class Conversation:
    """A conversation with one model, and what that saw of it.

    Args:
        remembered: as in `Compiler`.
    """

    def __init__(self, format: str, tools: Sequence[Any], recall: Recall, **options: Any):
        teaching = read_teaching(format)
        self.compiler = Compiler(real_vocabulary("qwen2"), teaching.template, **options)
        self.format, self.tools, self.recall = teaching.format, tools, recall
        self.seen: list[int] = []

    def compile(self, messages: Sequence[Any]) -> tuple[CompiledTurn, int]:
        """Returns the next turn, and how many tokens of its prompt are computed."""
        turn = self.compiler.compile(Job(messages, self.tools, recall=self.recall))
        return turn, len(turn.tokens) - count_common(self.seen, [*turn.tokens])

    def write(self, compiled: CompiledTurn, turn: Turn) -> None:
        """The model writes this turn."""
        text = render(turn, self.format, compiled.tools, compiled.state)
        tokens = compiled.vocabulary.encode_marked(text, compiled.markers)
        self.compiler.keep(compiled, tokens, show(turn, "verbatim"))
        self.seen = [*compiled.tokens, *tokens]


def replay(
    format: str, tools: Sequence[Any], turns: int, mode: str, recall: Recall, every: int = 0
) -> Row:
    """Returns a conversation, with a user message each `every` turns."""
    draw = random.Random(format)
    kept = Conversation(format, tools, recall)
    plain = Conversation(format, tools, recall, remembered=0)
    messages: list[Any] = [{"role": "user", "content": "Get going, please."}]
    counts, spliced, missed = list[tuple[int, int, int, int]](), 0, 0
    for number in range(turns):
        (compiled, computed), (other, cost) = kept.compile(messages), plain.compile(messages)
        reuse = compiled.prompt.reuse
        rest = len(compiled.prompt.tokens) - reuse.tokens if reuse.turn else 0
        counts.append((len(compiled.tokens), rest, computed, cost))
        spliced += rest > 0
        missed += number > 0 and reuse.turn is None
        turn = make_turn(tools, number, draw)
        if every and number % every == every - 1:
            turn = Turn(content=f"All done with {draw.choice(WORDS)}.", reasoning=turn.reasoning)
        if kept.format.reasoning is None or compiled.state.start is Start.CLOSED:
            turn = replace(turn, reasoning="")
        kept.write(compiled, turn)
        plain.write(other, turn)
        messages.append(show(turn, mode))
        messages += [
            {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": '{"ok": 1}'}
            for call in turn.calls
        ] or [{"role": "user", "content": f"And now {draw.choice(WORDS)}?"}]
    columns = [int(statistics.median(column)) for column in zip(*counts[1:], strict=True)]
    return Row(format, mode, turns - 1, spliced, *columns, missed=missed)
