"""The cost of a decode of several tokens, and the cost that drafts assume.

    python -m benchmarks.passes [-m MODEL.gguf] [--shape small|0.6b] [--dtype Q8_0] [--repeats 15]

Decodes of 1 to 11 tokens after 512, with the logits of each: medians, measured in turn.
"""

import argparse
import itertools
import statistics
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.forced import make_model
from constrained.decode.drafts.decode_costs import ALONE
from constrained.engine.llamacpp import load
from constrained.engine.protocol import Chunk

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11)
BEFORE = 512


def measure(path: Path, threads: int | None, repeats: int) -> dict[int, float]:
    """Milliseconds of a decode, by its number of tokens."""
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    with closing(load(path, threads=threads, context_length=2 * BEFORE, sequences=1)) as engine:
        engine.decode([Chunk(0, [*range(1000, 1000 + BEFORE)], 0)])
        for _, (size, taken) in itertools.product(range(repeats), times.items()):
            start = time.perf_counter()
            engine.decode([Chunk(0, [*range(2000, 2000 + size)], BEFORE, wanted=size)])
            taken.append(1000 * (time.perf_counter() - start))
            engine.rollback(0, BEFORE)
    return {size: statistics.median(taken) for size, taken in times.items()}


def main() -> None:
    """Prints a line for each number of tokens."""
    parser = argparse.ArgumentParser(description="What decodes of several tokens cost.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", choices=("small", "0.6b"), default="0.6b")
    parser.add_argument("--dtype", default="Q8_0")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("-t", "--threads", type=int)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = options.model or make_model(Path(folder) / "m.gguf", options.shape, options.dtype)
        times = measure(path, options.threads, options.repeats)
    print(f"{'tokens':>6}{'ms':>9}{'of one':>9}{'fitted':>9}")
    for size, spent in times.items():
        print(f"{size:>6}{spent:>9.1f}{spent / times[1]:>9.2f}{1 + ALONE.find(size - 1):>9.2f}")


if __name__ == "__main__":
    main()
