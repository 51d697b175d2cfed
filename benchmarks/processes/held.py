"""The server, with a thread that notes who keeps all others waiting: which call held the
interpreter lock, and for how long.

    python -m benchmarks.processes.held FILE [OPTIONS of the server]

Each line of FILE is a `Hold`. On a busy machine a thread waits for a core as well.
"""

import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from constrained.cli import main as run
from server.commands import SERVE

TICK = 0.001  # seconds
LEAST = 0.02  # seconds that are noted
FRAMES = 6  # of each thread, the innermost ones
IDLE = ("threading.py", "selectors.py", "thread.py", "queue.py")
"""Files of frames in which a thread waits."""


@dataclass(frozen=True)
class Hold:
    """A time in which the thread that notes did not run.

    Args:
        milliseconds: how long.
        threads: where each thread was right behind, innermost frame first, by its name. The lock
            was held by the last call of one of them.
    """

    milliseconds: int
    threads: Mapping[str, Sequence[str]]


def note_holds(file: Path) -> None:
    """Notes holds for as long as the process runs."""
    me = threading.get_ident()
    with file.open("a") as out:
        before = time.monotonic()
        while True:
            time.sleep(TICK)
            now = time.monotonic()
            if now - before > LEAST:
                places = list_places(sys._current_frames(), me)
                hold = Hold(round(1e3 * (now - before)), places)
                print(json.dumps(asdict(hold)), file=out, flush=True)
            before = time.monotonic()


def list_places(frames: dict[int, FrameType], me: int) -> dict[str, list[str]]:
    """The innermost frames of the threads that do not wait, by their names."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    places: dict[str, list[str]] = {}
    for ident, innermost in frames.items():
        if ident == me or Path(innermost.f_code.co_filename).name in IDLE:
            continue
        found: list[str] = []
        frame: FrameType | None = innermost
        while frame is not None and len(found) < FRAMES:
            name = Path(frame.f_code.co_filename).name
            found.append(f"{name}:{frame.f_lineno} {frame.f_code.co_name}")
            frame = frame.f_back
        places[names.get(ident, str(ident))] = found
    return places


def read_longest(file: Path, begin: int) -> Hold | None:
    """The longest of the holds that were noted behind this byte of a file; None: there is none."""
    with file.open("rb") as lines:
        lines.seek(begin)
        holds = [Hold(**json.loads(line)) for line in lines]
    return max(holds, key=lambda hold: hold.milliseconds, default=None)


def main() -> int:
    """Runs the server."""
    file = Path(sys.argv.pop(1))
    threading.Thread(target=note_holds, args=[file], daemon=True).start()
    return run(["serve", *sys.argv[1:]], commands=(SERVE,))


if __name__ == "__main__":
    sys.exit(main())
