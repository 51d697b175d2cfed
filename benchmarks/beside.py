"""What masks, samplers and Python add to a decode of eight sequences on another device.

    python -m benchmarks.beside [--pause 10] [--tokens 200] [--repeats 3]

The engine is a scripted one: each decode takes so many milliseconds, in which it lets go of the
interpreter as llama.cpp does on a GPU, and gives random logits over the 151,936 tokens of Qwen2.
Eight turns have to call a tool. Printed is the time outside of decodes, ms a step, with masks
computed behind the decode and beside it: medians of runs in turn.
"""

import argparse
import statistics
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.inputs.sources import read_teaching
from benchmarks.inputs.stage import real_vocabulary
from benchmarks.overhead import TOOL
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine
from constrained.job import Job
from constrained.model.model import Model
from constrained.vocabulary.vocabulary import Vocabulary

FORMATS = ("hermes", "qwen3_coder")
EIGHT = 8
GREEDY = Sampling(temperature=0)  # the logits are random already
ROWS = 64  # of random logits


class Paced(ScriptedEngine):
    """Takes its time.

    Args:
        pause: of a decode, in seconds.

    Attributes:
        decoding: seconds of all decodes.
        decodes: how many there were.
    """

    def __init__(self, vocabulary: Vocabulary, pause: float, *, offloads: bool):
        rows = np.random.default_rng(0).standard_normal((ROWS, len(vocabulary.tokens)), np.float32)

        def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
            return rows[(7 * sequence + len(tokens)) % ROWS]

        super().__init__(vocabulary, logits, offloads=offloads)
        self._pause = pause
        self.decoding, self.decodes = 0.0, 0

    def decode(self, chunks: Sequence[Chunk]) -> list[np.ndarray]:
        """As a device would, which needs nobody meanwhile."""
        started = time.perf_counter()
        made = super().decode(chunks)
        time.sleep(self._pause)
        self.decoding += time.perf_counter() - started
        self.decodes += 1
        return made


def measure(format: str, pause: float, tokens: int, *, offloads: bool) -> float:
    """Milliseconds outside of decodes, a step, of eight turns at once."""
    engine = Paced(real_vocabulary("qwen2"), pause, offloads=offloads)
    with Model(engine, read_teaching(format).template, draft=False) as model:
        turns = [
            model.compile(
                Job([{"role": "user", "content": f"turn {n}"}], [TOOL], tool_choice="required")
            )
            for n in range(EIGHT)
        ]
        started = time.perf_counter()
        model.complete(turns, max_tokens=tokens, sampling=GREEDY)
        spent = time.perf_counter() - started
    return 1000 * (spent - engine.decoding) / engine.decodes


def main() -> None:
    """Measures, and prints a line for each format."""
    parser = argparse.ArgumentParser(description="Masks beside the decode.")
    parser.add_argument("--pause", type=float, default=10, help="milliseconds of a decode")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{'format':<14}{'behind':>9}{'beside':>9}   ms a step outside of decode, of eight turns")
    for format in FORMATS:
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(options.repeats):
            for offloads, taken in times.items():
                pause = options.pause / 1000
                taken.append(measure(format, pause, options.tokens, offloads=offloads))
        behind, beside = (statistics.median(taken) for taken in times.values())
        print(f"{format:<14}{behind:>9.2f}{beside:>9.2f}")


if __name__ == "__main__":
    main()
