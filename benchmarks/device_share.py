"""Which share of a device's time is spent on tokens that reach the clients.

    python -m benchmarks.device_share [--turns 1 8 32] [--pause 5] [--vocabulary qwen2]

A scripted device takes so many milliseconds for a decode, whatever the number of turns, and lets go
of the interpreter lock meanwhile, as llama.cpp does on a GPU. Each turn writes a long argument of a
tool call, greedily; an event loop reads the streams of all of them. Whatever Python does between
two decodes keeps the device waiting. Both orders of a step are measured, in turn:

- in a row: decode, then all else (as where the model runs on the CPU, which has no time to spare);
- overlap: what the next decode does not need is done while it runs.

Columns: the tokens of a decode, the time that it took (on a busy machine longer than it should),
what came between two decodes (medians, milliseconds), the CPU time of that in the thread that
decodes, the share of the tokens that the device could have computed, and the same from the CPU time
alone, which other processes do not lengthen.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inputs.stage import real_vocabulary
from constrained.agent.model import Model
from constrained.decode.filters.events import StreamEvent
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import NEXT, ScriptedEngine, scripted_logits
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from server.commands.server_process import SWITCH_SECONDS

TEMPLATE = Path(__file__).parent.parent / "examples" / "templates" / "hermes.jinja"
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "write",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["text"],
        },
    },
}
HEAD = '<tool_call>\n{"name": "write", "arguments": {"text": "'
WORDS = "weather Paris tomorrow list open issues send mail convert nine miles please thanks".split()
SKIPPED = 16  # steps: prompts are read, turns begin
MAX_TOKENS = 4_000
GREEDY = Sampling(temperature=0)
ORDERS = {"in a row": False, "overlap": True}


@dataclass
class Steps:
    """Of all decodes: seconds that they took, and what came between them; turns that took part."""

    decodes: list[float] = field(default_factory=list[float])
    rows: list[int] = field(default_factory=list[int])
    gaps: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])


class Device(ScriptedEngine):
    """An engine that says given tokens, each decode in the same time.

    Args:
        vocabulary: of the engine.
        said: the tokens of each turn.
        turns: that it decodes at once.
        pause: seconds of a decode.
        offloads: it is another device.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        said: Sequence[int],
        *,
        turns: int,
        pause: float,
        offloads: bool,
    ):
        super().__init__(
            vocabulary,
            lambda sequence, tokens: np.empty(0),
            max_sequences=turns,
            context_length=8192,
            offloads=offloads,
        )
        self.steps = Steps()
        self._said = said
        self._pause = pause
        self.start = 0  # tokens of each prompt
        size = len(vocabulary.tokens)
        self._blank = np.zeros(size, np.float32)
        self._rows = np.zeros((turns, size), np.float32)  # the memory of each decode
        self._ended = time.perf_counter()
        self._cpu = time.thread_time()

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        began = time.perf_counter()
        self.steps.gaps.append(began - self._ended)
        self.steps.cpu.append(time.thread_time() - self._cpu)
        count = 0
        for chunk in chunks:
            tokens = self._tokens[chunk.sequence]
            tokens.extend(chunk.tokens)
            if chunk.wanted:
                self._fill(self._rows[count], len(tokens))
                count += 1
        self._logits = self._rows[:count]
        time.sleep(max(0.0, began + self._pause - time.perf_counter()))
        self._ended = time.perf_counter()
        self._cpu = time.thread_time()
        self.steps.decodes.append(self._ended - began)
        self.steps.rows.append(count)
        return self._logits

    def _fill(self, row: np.ndarray, length: int) -> None:
        """Writes the logits after so many tokens."""
        place = length - self.start
        np.copyto(row, self._blank)
        token = self._said[place] if place < len(self._said) else self.vocabulary.end[0]
        row[token] = NEXT


def compile_turns(model: Model, count: int) -> list[CompiledTurn]:
    """Turns that have to call a tool; their prompts have the same length."""
    turns = list[CompiledTurn]()
    for number in range(count):
        messages = [{"role": "user", "content": f"turn {number:02}"}]
        turns.append(model.compile(Job(messages, [TOOL], tool_choice="required")))
    return turns


def make_template() -> ChatTemplate:
    """The template of all turns."""
    return ChatTemplate(TEMPLATE.read_text(encoding="utf-8"))


def record(vocabulary: Vocabulary, words: int) -> Sequence[int]:
    """The tokens of a turn: its text, cut as the grammar wants it."""
    text = " ".join(random.Random(0).choices(WORDS, k=words))
    script = HEAD + text + '"}}\n</tool_call>'
    engine = ScriptedEngine(vocabulary, scripted_logits(vocabulary, script), context_length=8192)
    with Model(engine, make_template(), draft=False) as model:
        (turn,) = compile_turns(model, 1)
        (reply,) = model.complete([turn], max_tokens=MAX_TOKENS, sampling=GREEDY, logprobs=0)
    return [drawn.token for drawn in reply.logprobs]


async def read(model: Model, turn: CompiledTurn) -> Reply:
    """Reads a stream to its end."""
    stream = model.astream_turn(turn, max_tokens=MAX_TOKENS, sampling=GREEDY)
    events = list[StreamEvent]()
    async for batch in stream.batches():
        events += batch
    return await stream.result()


async def read_all(model: Model, turns: Sequence[CompiledTurn]) -> list[Reply]:
    """Reads all streams."""
    return await asyncio.gather(*(read(model, turn) for turn in turns))


def measure(
    vocabulary: Vocabulary, said: Sequence[int], *, turns: int, pause: float, offloads: bool
) -> Steps:
    """The steps in which all turns are under way."""
    engine = Device(vocabulary, said, turns=turns, pause=pause, offloads=offloads)
    with Model(engine, make_template(), draft=False) as model:
        compiled = compile_turns(model, turns)
        engine.start = len(compiled[0].tokens)
        replies = asyncio.run(read_all(model, compiled))
    texts = {reply.text for reply in replies}
    assert len(texts) == 1, "all turns are told to write the same"
    steps = engine.steps
    end = len(steps.decodes) - SKIPPED
    kept = slice(SKIPPED, end)
    return Steps(steps.decodes[kept], steps.rows[kept], steps.gaps[kept], steps.cpu[kept])


def main() -> None:
    """Measures, and prints a line for each number of turns and each order."""
    parser = argparse.ArgumentParser(description="How much of its time a device is at work.")
    parser.add_argument("--vocabulary", default="qwen2", metavar="NAME")
    parser.add_argument("--turns", type=int, nargs="+", default=[1, 8, 32], metavar="N")
    parser.add_argument("--pause", type=float, default=5, help="milliseconds of a decode")
    parser.add_argument("--words", type=int, default=300, help="of the argument")
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_SECONDS)  # as in the server
    vocabulary = real_vocabulary(options.vocabulary)
    said = record(vocabulary, options.words)
    pause = options.pause / 1e3
    print(f"{options.vocabulary}, {options.pause:g} ms a decode, load {os.getloadavg()[0]:.1f}")
    names = f"{'tokens':>7}{'decode':>8}{'between':>9}{'CPU':>7}{'share':>8}{'of CPU':>8}"
    print(f"{'turns':>6} {'order':<9}{names}")
    for turns in options.turns:
        for order, offloads in ORDERS.items():
            steps = measure(vocabulary, said, turns=turns, pause=pause, offloads=offloads)
            decode, gap = statistics.median(steps.decodes), statistics.median(steps.gaps)
            cpu, rows = statistics.median(steps.cpu), statistics.fmean(steps.rows)
            figures = f"{rows:7.1f}{1e3 * decode:8.2f}{1e3 * gap:9.2f}{1e3 * cpu:7.2f}"
            part = rows / turns
            shares = f"{part * decode / (decode + gap):8.0%}{part * pause / (pause + cpu):8.0%}"
            print(f"{turns:>6} {order:<9}{figures}{shares}", flush=True)


if __name__ == "__main__":
    main()
