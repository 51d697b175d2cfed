"""Kills the process of recorded runs (SIGKILL) at random places, and resumes the runs.

    python -m tests.constrained.agent.runs.killed_runs [--kills 100] [--seed 1]

A process of its own, since it forks. The engine is scripted. A run has turns with calls that read
and calls that write; each call that writes appends a line to a file. The process counts the lines
of code that it runs in the loop, in the record and in the tools, and kills itself at one drawn at
random; so does the one that resumes the run, up to twice. Exit code 1 if a call that writes was
made twice, if one was lost and the model does not know it, or if a run could not be resumed.
"""

import argparse
import json
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import numpy as np

from constrained import Model, Run, Sampling, tool
from constrained.agent.runs.store import RunStore
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.prompt.template.chat_template import ChatTemplate
from tests.templates import HERMES, hermes_call

OPENER = rb"<\|im_start\|>assistant\n"
WATCHED = (
    "constrained/agent/",
    "constrained/agent/runs/",
    "tests/constrained/agent/runs/killed_runs.py",
)
CALLS = (
    (("look", 1), ("write", 1), ("look", 2)),
    (("write", 2), ("write", 3)),
    (("look", 3), ("look", 4), ("write", 4)),
)
MAX_KILLS = 3  # of one run


def write_turn(calls: Sequence[tuple[str, int]]) -> str:
    """Returns a turn with these calls."""
    return "\n".join(hermes_call(name, json.dumps({"value": value})) for name, value in calls)


def make_model() -> Model:
    """Returns a model that makes the calls, whatever their results are, and answers."""
    vocabulary = byte_vocabulary()
    scripts = [*map(write_turn, CALLS), "Done."]

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        starts = [found.end() for found in re.finditer(OPENER, vocabulary.text(tokens))]
        return scripted_logits(vocabulary, scripts[len(starts) - 1], starts[-1])(sequence, tokens)

    engine = ScriptedEngine(vocabulary, logits, context_length=20_000)
    return Model(engine, ChatTemplate(HERMES))


def make_tools(folder: Path) -> list[Callable[..., Any]]:
    """Tools that note each of their calls."""

    @tool(read_only=True)
    def look(value: int) -> str:
        return f"seen {value}"

    def write(value: int) -> str:
        with (folder / "effects").open("a") as effects:
            effects.write(f"{value}\n")
        return f"written {value}"

    return [look, write]


def go(folder: Path) -> Run:
    """Begins the run, or resumes it."""
    record = folder / "runs.db"
    tools = make_tools(folder)
    with make_model() as model:
        if record.exists():
            with RunStore(record) as store:
                runs = store.list_runs()
            if runs:
                return model.resume(record, runs[0].id, tools)
        return model.run("Go.", tools, record=record, sampling=Sampling(temperature=0))


def watch(at: int | None) -> Counter[str]:
    """Counts the lines that this thread runs from now on in the code of runs; at the given one, the
    process is killed."""
    counts = Counter[str]()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in WATCHED):
            return None
        if event == "line":
            counts["lines"] += 1
            if counts["lines"] == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    return counts


def in_child(folder: Path, at: int | None) -> bool:
    """Goes on with the run in another process; False if that was killed."""
    child = os.fork()
    if child == 0:
        try:
            counts = watch(at)
            ran = go(folder)
            sys.settrace(None)
            ended = {
                "lines": counts["lines"],
                "reason": ran.reason,
                "content": ran.content,
                "calls": [[one.call.arguments["value"], one.outcome] for one in ran.calls],
                "messages": len(ran.messages),
            }
            (folder / "ended").write_text(json.dumps(ended))
            os._exit(0)
        except BaseException as e:
            print(f"{type(e).__name__}: {e}", file=sys.stderr)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.WEXITSTATUS(status):
        raise SystemExit("a run could not be resumed")
    return True


def kill_and_resume(choose: random.Random, lines: int) -> dict[str, Any]:
    """Kills a run up to three times; returns what became of it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "effects").touch()
        kills = 0
        for _ in range(choose.randint(1, MAX_KILLS)):
            if in_child(folder, choose.randint(1, lines)):
                break
            kills += 1
        in_child(folder, None)
        ended = json.loads((folder / "ended").read_text())
        effects = Counter(map(int, (folder / "effects").read_text().split()))
    return {**ended, "effects": effects, "kills": kills}


def find_faults(ended: dict[str, Any]) -> list[str]:
    """Returns what must not be, of a run that ended."""
    faults: list[str] = []
    if ended["reason"] != "stop" or ended["content"] != "Done.":
        faults.append(f"it ended otherwise: {ended['reason']}, {ended['content']!r}")
    expected = [value for turn in CALLS for _, value in turn]
    if [value for value, _ in ended["calls"]] != expected:
        faults.append("a call has no result, or two")
    writes = [value for turn in CALLS for name, value in turn if name == "write"]
    names = [name for turn in CALLS for name, _ in turn]
    for (value, outcome), name in zip(ended["calls"], names, strict=True):
        count = ended["effects"][value]
        if name == "write" and count > 1:
            faults.append(f"write({value}) was made {count} times")
        if name == "write" and outcome == "done" and count != 1:
            faults.append(f"write({value}) counts as done, and is not")
        if name == "look" and outcome != "done":
            faults.append(f"look({value}) is {outcome}")
    if set(ended["effects"]) - set(writes):
        faults.append("something else was written")
    return faults


def main() -> int:
    """Kills as many runs as asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100, help="runs that are killed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    choose = random.Random(options.seed)
    with TemporaryDirectory() as name:
        Path(name, "effects").touch()
        in_child(Path(name), None)
        whole = json.loads(Path(name, "ended").read_text())
    kills = faults = 0
    for _ in range(options.kills):
        ended = kill_and_resume(choose, whole["lines"])
        kills += ended["kills"]
        for fault in find_faults(ended):
            faults += 1
            print(fault)
    print(f"{options.kills} runs of {whole['lines']} lines, killed {kills} times: {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
