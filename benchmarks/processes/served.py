"""The server as a process of its own, for what measures it from outside."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 120  # seconds until it answers
ENDED = (0, -15)  # the statuses that it may end with


@dataclass(frozen=True)
class Served:
    """A server that runs: where it is, and the number of its process."""

    url: str
    pid: int

    def measure(self) -> int:
        """Memory that the process and those that it has started have in use, in bytes."""
        return sum(map(_measure, [self.pid, *_list_children(self.pid)]))

    def measure_alone(self) -> int:
        """Memory that the process itself has in use, in bytes."""
        return _measure(self.pid)


def _list_children(pid: int) -> Iterator[int]:
    """Lists the processes that a process has started, and those that these have started."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            _, _, fields = place.read_text().rpartition(")")  # its name may have spaces
            if int(fields.split()[1]) == pid:
                child = int(place.parent.name)
                yield child
                yield from _list_children(child)


def _measure(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:  # it has ended
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serve(options: Sequence[str], module: Sequence[str] = ("server",)) -> Iterator[Served]:
    """Starts a server that listens to this machine alone, waits until it answers, and stops it.

    Args:
        options: of the command line, without host and port.
        module: what is run in place of `python -m server`, and its first arguments.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", *module, "--port", str(port), *options]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LLAMA_ARG_")}
    process = subprocess.Popen(command, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url)
        yield Served(url, process.pid)
    finally:
        process.terminate()
        code = process.wait(PATIENCE)
        assert code in ENDED, f"the server ended with {code}"


def _wait(process: "subprocess.Popen[bytes]", url: str) -> None:
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE:
        assert process.poll() is None, "the server has ended"
        try:
            with urllib.request.urlopen(f"{url}/health"):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server does not answer")
