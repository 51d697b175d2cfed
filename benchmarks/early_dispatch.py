"""The time saved because read-only calls begin while the turn is still being generated.

    python -m benchmarks.early_dispatch [--turns 50] [--repeats 3]
        [--calls 4] [--tool 60] [--token 1]

A run has `--turns` turns, each with `--calls` calls of a tool that takes `--tool` milliseconds.
First with a scripted engine, whose decodes take `--token` milliseconds, then with the demo model,
whose turns have one call each and end some tokens after it. Printed are the seconds of each run
with a tool that is read-only and with one that is not, in turns, and the time saved. Exit code 1 if
the two differ in their messages, or nothing was saved by the scripted engine.
"""

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from constrained import FunctionTool, Model, Run, Sampling, load
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.template.chat_template import ChatTemplate
from constrained.vocabulary.vocabulary import byte_vocabulary

TEMPLATE = Path(__file__).parent.parent / "examples" / "templates" / "hermes.jinja"
OPENER = rb"<\|im_start\|>assistant\n"
GREEDY = Sampling(temperature=0)


def make_scripted(turns: int, calls: int, pause: float) -> Model:
    """A model that calls so often in each turn, and answers at last."""
    vocabulary = byte_vocabulary()

    def write(turn: int) -> str:
        if turn == turns:
            return "Done."
        written: list[str] = []
        for number in range(calls):
            arguments = {"city": f"city {turn}-{number}"}
            call = json.dumps({"name": "get_weather", "arguments": arguments})
            written.append(f"<tool_call>\n{call}\n</tool_call>")
        return "\n".join(written)

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        time.sleep(pause)
        starts = [found.end() for found in re.finditer(OPENER, vocabulary.text(tokens))]
        return scripted_logits(vocabulary, write(len(starts) - 1), starts[-1])(sequence, tokens)

    engine = ScriptedEngine(vocabulary, logits, context_length=200_000)
    return Model(engine, ChatTemplate(TEMPLATE.read_text("utf-8")))


def make_tool(seconds: float, *, read_only: bool) -> FunctionTool:
    """A tool that takes so long."""

    def get_weather(city: str) -> dict[str, Any]:
        """The weather of today.

        Args:
            city: its English name
        """
        time.sleep(seconds)
        return {"city": city, "temperature": 21}

    return FunctionTool.from_function(get_weather, read_only=read_only)


def run_scripted(turns: int, calls: int, *, pause: float, tool: FunctionTool) -> Run:
    """A run of the scripted model."""
    with make_scripted(turns, calls, pause) as model:
        return model.run("Go.", [tool], max_steps=turns + 1, max_tokens=4000, sampling=GREEDY)


def run_demo(model: Model, turns: int, tool: FunctionTool) -> Run:
    """As many questions to the demo model, one after the other; the last run is returned."""
    ran = None
    for turn in range(turns):
        city = ("Paris", "Rome", "Tokyo", "Oslo", "Lima")[turn % 5]
        ran = model.run(
            f"What's the weather in {city}?", [tool], max_steps=1, max_tokens=200, sampling=GREEDY
        )
    assert ran is not None
    return ran


def compare(name: str, run: Any, *, turns: int, seconds: float, repeats: int) -> bool:
    """Measures both ways by turns, and prints them; False if they differ."""
    times: dict[bool, list[float]] = {False: [], True: []}
    ran: dict[bool, Run] = {}
    for _ in range(repeats):
        for read_only in (False, True):
            begun = time.perf_counter()
            ran[read_only] = run(make_tool(seconds, read_only=read_only))
            times[read_only].append(time.perf_counter() - begun)
    late, early = (statistics.median(times[way]) for way in (False, True))
    print(
        f"{name:9} {turns} tool turns: {late:6.2f} s behind the turn, {early:6.2f} s early, "
        f"{late - early:5.2f} s saved ({(late - early) / late:.0%})"
    )
    return ran[False].messages == ran[True].messages and (name == "demo" or early < late)


def main() -> int:
    """Runs both models."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--calls", type=int, default=4, help="of a turn of the scripted model")
    parser.add_argument("--tool", type=float, default=60, help="milliseconds of a call")
    parser.add_argument("--token", type=float, default=1, help="milliseconds of a decode")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    turns, seconds, repeats = options.turns, options.tool / 1000, options.repeats
    pause = options.token / 1000

    def scripted(tool: FunctionTool) -> Run:
        return run_scripted(turns, options.calls, pause=pause, tool=tool)

    is_same = compare("scripted", scripted, turns=turns, seconds=seconds, repeats=repeats)
    with load() as model:

        def demo(tool: FunctionTool) -> Run:
            return run_demo(model, turns, tool)

        demo(make_tool(0, read_only=True))
        is_same &= compare("demo", demo, turns=turns, seconds=seconds, repeats=repeats)
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
