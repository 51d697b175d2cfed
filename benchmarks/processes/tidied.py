"""The server, which collects garbage and returns free memory to the system at SIGUSR1: what it has
in use then, it needs or leaks.

    python -m benchmarks.processes.tidied [OPTIONS of the server]
"""

import gc
import signal
import sys
from types import FrameType

from constrained.cli.parser import main as run
from constrained.engine.host import return_free_memory
from server.commands import SERVE


def tidy(_number: int, _frame: FrameType | None) -> None:
    """Handles the signal."""
    gc.collect()
    return_free_memory()


def main() -> int:
    """Runs the server."""
    signal.signal(signal.SIGUSR1, tidy)
    return run(["serve", *sys.argv[1:]], commands=(SERVE,))


if __name__ == "__main__":
    sys.exit(main())
