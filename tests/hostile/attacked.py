"""An attack in a process of its own, which has little memory and ends for sure."""

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MEMORY = 2 << 30  # bytes of addresses
HANG = 60  # seconds: a bound against hangs, no measure of speed
ROOT = Path(__file__).parents[2]


def run_attack(
    code: str, arguments: Sequence[str] = (), *, memory: int = MEMORY
) -> subprocess.CompletedProcess[str]:
    """Runs Python code with these arguments in its `sys.argv`.

    Raises:
        subprocess.TimeoutExpired: it hangs.
    """

    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        preexec_fn=limit_memory,
        check=False,
    )
