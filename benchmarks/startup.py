"""How long the program takes to start: medians of processes, one after the other, in turns.

    python -m benchmarks.startup [--repeats 9] [-m demo smollm2]

Beside the time on the clock it says how long the process used the CPU, which other work on the
machine changes less. The rows of `load` are the calls alone, in a process that has imported
llama.cpp: of a model file (or name) that was loaded before, and then again in the same process.
Last come the peaks of memory of these processes.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict

STARTS = {
    "python alone": ["-c", "pass"],
    "import constrained": ["-c", "import constrained"],
    "from constrained import load": ["-c", "from constrained import load"],
    "constrained --help": ["-m", "constrained", "--help"],
    "constrained serve --help": ["-m", "constrained", "serve", "--help"],
    'constrained call "Hello!"': ["-m", "constrained", "call", "Hello!"],
}


LOADS = """
import resource, sys, time
import constrained.engine.llamacpp
from constrained import load
for _ in range(2):
    begun, used = time.perf_counter(), time.process_time()
    model = load(sys.argv[1])
    print(time.perf_counter() - begun, time.process_time() - used)
    model.close()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
ROUNDS = ("first", "again")


def measure_loads(source: str) -> tuple[list[tuple[float, float]], float]:
    """Seconds on the clock, and of the CPU, of two loads of a model in one process; and the peak of
    its memory in MB."""
    command = [sys.executable, "-c", LOADS, source]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    *loads, memory = [line.split() for line in output.splitlines()]
    return [(float(seconds), float(used)) for seconds, used in loads], float(memory[0])


def measure(arguments: list[str]) -> tuple[float, float]:
    """Seconds on the clock, and of the CPU, of one process."""
    begun, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    after = os.times()
    used = after.children_user + after.children_system
    return time.perf_counter() - begun, used - before.children_user - before.children_system


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description="How long the program takes to start.")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("-m", "--models", nargs="*", default=["demo"], help="files or names")
    options = parser.parse_args()
    clock: dict[str, list[float]] = defaultdict(list)
    cpu: dict[str, list[float]] = defaultdict(list)
    peaks: dict[str, float] = {}
    for _ in range(options.repeats):
        for name, arguments in STARTS.items():
            seconds, used = measure(arguments)
            clock[name].append(seconds)
            cpu[name].append(used)
        for source in options.models:
            loads, peaks[source] = measure_loads(source)
            for which, (seconds, used) in zip(ROUNDS, loads, strict=True):
                name = f"load({source!r}), {which}"
                clock[name].append(seconds)
                cpu[name].append(used)
    print("| what | seconds | of the CPU |\n|---|---|---|")
    for name in clock:
        median, used = statistics.median(clock[name]), statistics.median(cpu[name])
        print(f"| {name} | {median:.2f} | {used:.2f} |")
    for source, peak in peaks.items():
        print(f"load({source!r}): at most {peak:.0f} MB")


if __name__ == "__main__":
    main()
