"""`constrained cluster` on this machine, on a port of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

MARK = "CONSTRAINED_TEST_CLUSTER"
START_SECONDS = 420
STOP_SECONDS = 90


@dataclass(frozen=True)
class RunningCluster:
    """A cluster.

    Args:
        url: where it listens.
        mark: in the environment of all of its processes.
        process: the command.
        log: what it has printed.
    """

    url: str
    mark: str
    process: subprocess.Popen[bytes]
    log: Path

    def find_replicas(self, *, loaded: bool = False) -> list[int]:
        """The process ids of its engines.

        Args:
            loaded: only of those that have the weights in their memory.
        """
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                title = (folder / "cmdline").read_bytes()
                environment = (folder / "environ").read_bytes()
                is_engine = title.startswith(b"ray::ServeReplica:constrained:Engine")
                if not is_engine or f"{MARK}={self.mark}".encode() not in environment:
                    continue
                if not loaded or b".gguf" in (folder / "maps").read_bytes():
                    found.append(int(folder.name))
            except OSError:  # it has ended meanwhile
                continue
        return found


def find_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@contextmanager
def run_cluster(*arguments: str) -> Iterator[RunningCluster]:
    """A cluster of the demo model that is ready."""
    mark, port = uuid.uuid4().hex, find_port()
    # A short path: Ray has sockets in it.
    with TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, MARK: mark, "RAY_TMPDIR": folder, "RAY_ADDRESS": "local"}
        words = [sys.executable, "-m", "constrained", "cluster", "--port", str(port)]
        words += ["-t", "1", "--front-cpus", "0", "--replica-cpus", "0.5", *arguments]
        log = Path(folder, "log.txt")
        with log.open("wb") as output:
            process = subprocess.Popen(
                words, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url, log)
            yield RunningCluster(url, mark, process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"the cluster is not ready:\n{log.read_text(errors='replace')[-4000:]}")
