"""The server, with a thread that records which calls held the interpreter lock, and for how long.

    python -m benchmarks.processes.lock_holds FILE [OPTIONS of the server]

Each line of FILE is a `Hold`. It has the time that a thread computed while the
recording thread did not run, without the time in which that one waited for a core. So it does not
depend on what else the machine does. Only Linux reports it.
"""

import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from constrained.cli import main as run
from server.commands import SERVE

TICK = 0.002  # seconds
LEAST = 0.015  # seconds; shorter holds are not recorded
FRAMES = 7  # the number of innermost frames in a record
FREE = ("decode", "encode")
"""Functions whose calls of llama.cpp release the lock."""


@dataclass(frozen=True)
class Hold:
    """A time in which a thread computed, and the recording thread did not run.

    Args:
        milliseconds: how long it computed.
        thread: its name.
        places: where it was right afterwards, the innermost frame first: the last call of one of
            these held the lock.
    """

    milliseconds: int
    thread: str
    places: Sequence[str]


def record_holds(file: Path) -> None:
    """Records holds as long as the process runs."""
    with file.open("a") as out:
        times, waited = measure_threads(), measure_wait()
        while True:
            time.sleep(TICK)
            before, times = times, measure_threads()
            waited_before, waited = waited, measure_wait()
            frames = sys._current_frames()
            for thread, seconds in times.items():
                taken = seconds - before.get(thread, seconds) - (waited - waited_before)
                places = list_places(frames.get(thread.ident or 0))
                if taken > LEAST and not places[0].endswith(FREE):
                    hold = Hold(round(1e3 * taken), thread.name, places)
                    print(json.dumps(asdict(hold)), file=out, flush=True)


def measure_wait() -> float:
    """Returns the seconds that this thread was ready to run, and had no core."""
    _, waited, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return int(waited) / 1e9


def measure_threads() -> dict[threading.Thread, float]:
    """Returns the seconds that each of the other threads has computed."""
    times: dict[threading.Thread, float] = {}
    for thread in threading.enumerate():
        if thread.ident is None or thread is threading.current_thread():
            continue
        with suppress(OSError):  # it has ended
            spent, _, _ = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()
            times[thread] = int(spent) / 1e9
    return times


def list_places(innermost: FrameType | None) -> list[str]:
    """Returns the innermost frames of a thread."""
    found: list[str] = []
    frame = innermost
    while frame is not None and len(found) < FRAMES:
        name = Path(frame.f_code.co_filename).name
        found.append(f"{name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return found or [""]


def read_longest(file: Path, begin: int) -> Hold | None:
    """Returns the longest of the holds that were noted after this byte of a file; None: there is
    none."""
    with file.open("rb") as lines:
        lines.seek(begin)
        holds = [Hold(**json.loads(line)) for line in lines]
    return max(holds, key=lambda hold: hold.milliseconds, default=None)


def main() -> int:
    """Runs the server."""
    file = Path(sys.argv.pop(1))
    threading.Thread(target=record_holds, args=[file], daemon=True).start()
    return run(["serve", *sys.argv[1:]], commands=(SERVE,))


if __name__ == "__main__":
    sys.exit(main())
