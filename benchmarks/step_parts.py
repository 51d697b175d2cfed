"""How the time of a step outside of the model is spent.

    python -m benchmarks.step_parts [--vocabularies llama-spm qwen2 gemma-4] [--turns 1 8 32]
                                    [--text FILE] [--envelopes native off]

A scripted engine writes one long argument of a tool call, or with --text an answer, whose lines are
looked at for calls in other forms than the model's own (--envelopes). Its logits come at once, and
the time to make them is left out. Prints the CPU time of the thread that runs the turns (a busy
machine changes it less), in microseconds for one token of one turn:

- mask: llguidance computes which tokens may come;
- apply: the others are forbidden in the logits, where the most likely token is not allowed;
- sample: a token is sampled;
- commit: llguidance takes it, and gives the tokens that it forces;
- parts: the rules besides the grammar (reserve of an ending, endless values, budgets);
- parse: the token becomes text and events;
- all: of a run in which nothing but whole steps is measured, as measuring takes its time, too.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.inputs.stage import real_vocabulary
from benchmarks.overhead import HEAD, TEMPLATE, TOOL, write_text
from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.endless.values import EndlessValues
from constrained.decode.turn_decoder import TurnDecoder
from constrained.decode.turn_part import TurnPart
from constrained.decode.turn_state import TurnState
from constrained.engine.numpy_sampler import RowSampler
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.job import Envelopes, Job
from constrained.mask.matcher import Matcher
from constrained.model.model import Model
from constrained.schedule.scheduler import Schedule
from constrained.template.chat_template import ChatTemplate

HOOKS = [name for name in vars(TurnPart) if not name.startswith("_") and name != "name"]
PARTS: dict[str, list[tuple[type, str]]] = {
    "mask": [(Matcher, "prepare")],
    "apply": [(Matcher, "apply")],
    "sample": [(RowSampler, "sample"), (TurnDecoder, "_find_best")],
    "commit": [(Matcher, "commit"), (Matcher, "forced")],
    "parts": [(owner, method) for owner in (CompletionReserve, EndlessValues) for method in HOOKS],
    "parse": [(TurnState, "write_next")],
    "all": [(Schedule, "step")],
    "engine": [(ScriptedEngine, "decode")],
}
WHOLE = ("all", "engine")
INNER = [part for part in PARTS if part not in WHOLE]
SKIPPED = 16  # steps: prompts are read, turns begin
MAX_TOKENS = 4_000
MAX_TEXT = 12_000  # characters


class Clock:
    """Time of this thread by part; that of a part within another one counts for the inner one."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    def _charge(self) -> None:
        now = time.thread_time()
        if self._open:
            self.spent[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Charges a part."""
        self._charge()
        self._open.append(part)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def wrap(self, part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the same method, which is charged."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.measure(part):
                return method(*args, **kwargs)

        return timed


class Rows:
    """Counts the tokens that an engine is asked for; those of the first steps are not measured."""

    def __init__(self, clock: Clock):
        self.count = self.steps = 0
        self._clock = clock

    def note(self, rows: int) -> None:
        """A decode has given so many rows of logits."""
        self.steps += 1
        if self.steps == SKIPPED:
            self._clock.spent.clear()
            self.count = 0
        self.count += rows


def measure(
    vocabulary: str, turns: int, script: str, parts: Sequence[str], *, envelopes: Envelopes
) -> dict[str, float]:
    """Microseconds a token, of these parts alone."""
    clock = Clock()
    rows = Rows(clock)
    tokens = real_vocabulary(vocabulary)

    class Counted(ScriptedEngine):
        def decode(self, chunks: Any) -> Any:
            made = super().decode(chunks)
            rows.note(len(made))
            return made

    engine = Counted(
        tokens, scripted_logits(tokens, script), max_sequences=turns, context_length=8192
    )
    template = ChatTemplate(TEMPLATE.read_text(encoding="utf-8"))
    patches = [
        patch.object(owner, method, clock.wrap(part, getattr(owner, method)))
        for part in parts
        for owner, method in PARTS[part]
    ]
    with Model(engine, template, draft=False) as model:
        jobs = [
            Job(
                [{"role": "user", "content": f"turn {n}"}],
                [TOOL],
                tool_choice="required" if script.startswith(HEAD) else "auto",
                envelopes=envelopes,
            )
            for n in range(turns)
        ]
        compiled = [model.compile(job) for job in jobs]
        for patched in patches:
            patched.start()
        try:
            model.complete(compiled, max_tokens=MAX_TOKENS, sampling=Sampling(temperature=0))
        finally:
            for patched in patches:
                patched.stop()
    return {part: 1e6 * clock.spent[part] / rows.count for part in parts}


def main() -> None:
    """Measures, and prints a line for each vocabulary and number of turns."""
    parser = argparse.ArgumentParser(description="Where the microseconds of a step go.")
    names = ["llama-spm", "qwen2", "gemma-4"]
    parser.add_argument("--vocabularies", nargs="+", default=names, metavar="NAME")
    parser.add_argument("--turns", type=int, nargs="+", default=[1, 8, 32], metavar="N")
    parser.add_argument("--characters", type=int, default=600, help="of the argument")
    help = "an answer, in place of the call; at most 12,000 characters"
    parser.add_argument("--text", type=Path, metavar="FILE", help=help)
    help = "what becomes of calls in other forms, with --text"
    parser.add_argument(
        "--envelopes", nargs="+", choices=[*Envelopes], default=[Envelopes.KEPT], help=help
    )
    options = parser.parse_args()
    script = HEAD + write_text(options.characters) + '"}}\n</tool_call>'
    if options.text is not None:
        script = options.text.read_text(encoding="utf-8")[:MAX_TEXT]
    header = "".join(f"{part:>8}" for part in [*INNER, "all"])
    print(f"{'vocabulary':<12}{'envelopes':<12}{'turns':>6}{header}   us a token")
    runs = product(options.vocabularies, options.turns, map(Envelopes, options.envelopes))
    for vocabulary, turns, envelopes in runs:
        inner = [*INNER, *WHOLE]
        spent = measure(vocabulary, turns, script, inner, envelopes=envelopes)
        whole = measure(vocabulary, turns, script, WHOLE, envelopes=envelopes)
        spent["all"] = whole["all"]
        figures = "".join(f"{spent[part]:8.0f}" for part in [*INNER, "all"])
        print(f"{vocabulary:<12}{envelopes:<12}{turns:>6}{figures}", flush=True)


if __name__ == "__main__":
    main()
