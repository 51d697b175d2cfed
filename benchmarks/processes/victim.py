"""A client that asks for the same again and again. It is a process of its own, so that what a
benchmark computes meanwhile does not keep it waiting.

    python -m benchmarks.processes.victim URL KEY [BODY]

It asks for /health, or sends BODY as a chat. A line on stdin lets it begin; it prints a line before
its first request. The next line on stdin lets it end; then it prints the longest time of a request
in seconds ("inf": one was not answered).
"""

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

SECONDS = 60.0  # a request that takes longer is not answered
PAUSE = 0.02  # seconds between two requests


class Victim:
    """The process, which starts to ask with `start`.

    Args:
        process: runs this module.
    """

    def __init__(self, process: "subprocess.Popen[bytes]"):
        self._process = process

    def start(self) -> None:
        """Lets it ask, and waits until it does.

        Raises:
            RuntimeError: the process has ended.
        """
        self._write_line()
        self._read_line()

    def stop(self) -> float:
        """Lets it end, and returns the longest time of a request in seconds; inf: one was not
        answered. At least one request is measured.

        Raises:
            RuntimeError: the process has ended.
        """
        self._write_line()
        return float(self._read_line())

    def _write_line(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
        except BrokenPipeError as error:
            raise self._describe_end() from error

    def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._describe_end()
        return line

    def _describe_end(self) -> RuntimeError:
        return RuntimeError(f"the victim has ended with code {self._process.wait()}")


@contextmanager
def run_victim(url: str, key: str, body: Any = None) -> Iterator[Victim]:
    """Runs a victim until the block ends.

    Args:
        url: of the server.
        key: its API key.
        body: of the chat that it asks for; None: it asks for /health.
    """
    command = [sys.executable, "-m", "benchmarks.processes.victim", url, key]
    if body is not None:
        command.append(json.dumps(body))
    # Without a buffer: else what a dead process has not read is written again at the end.
    with subprocess.Popen(
        command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Victim(process)
        finally:
            process.terminate()


def measure_worst(url: str, key: str, body: str | None, is_over: threading.Event) -> float:
    """Returns the longest time of a request, of those sent until it is over. At least one is
    sent."""
    worst = 0.0
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as client:
        print("asking", flush=True)
        while True:
            began = time.monotonic()
            try:
                if body is None:
                    client.get("/health").raise_for_status()
                else:
                    client.post("/v1/chat/completions", content=body).raise_for_status()
            except httpx.HTTPError:
                return math.inf
            worst = max(worst, time.monotonic() - began)
            if is_over.wait(PAUSE):
                return worst


def main() -> None:
    """Asks between two lines of stdin, until it ends."""
    url, key, *bodies = sys.argv[1:]
    body = bodies[0] if bodies else None
    while sys.stdin.readline():
        is_over = threading.Event()
        waiting = threading.Thread(target=wait_for_line, args=(is_over,), daemon=True)
        waiting.start()
        worst = measure_worst(url, key, body, is_over)
        waiting.join()
        print(worst, flush=True)


def wait_for_line(is_over: threading.Event) -> None:
    """Waits for the line that lets it end."""
    sys.stdin.readline()
    is_over.set()


if __name__ == "__main__":
    main()
