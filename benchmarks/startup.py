"""How long the program takes to start: medians of processes, one after the other, in turns.

    python -m benchmarks.startup [--repeats 9]

Beside the time on the clock it says how long the process used the CPU, which other work on the
machine changes less.
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
    "constrained --version": ["-m", "constrained", "--version"],
    "constrained call --help": ["-m", "constrained", "call", "--help"],
    "constrained serve --help": ["-m", "constrained", "serve", "--help"],
    'constrained call "Hello!"': ["-m", "constrained", "call", "Hello!"],
}


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
    options = parser.parse_args()
    clock: dict[str, list[float]] = defaultdict(list)
    cpu: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.repeats):
        for name, arguments in STARTS.items():
            seconds, used = measure(arguments)
            clock[name].append(seconds)
            cpu[name].append(used)
    print("| what | seconds | of the CPU |\n|---|---|---|")
    for name in STARTS:
        median, used = statistics.median(clock[name]), statistics.median(cpu[name])
        print(f"| {name} | {median:.2f} | {used:.2f} |")


if __name__ == "__main__":
    main()
