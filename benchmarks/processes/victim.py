"""A client that asks for the same again and again. It is a process of its own, so that what a
benchmark computes meanwhile does not keep it waiting.

    python -m benchmarks.processes.victim URL KEY [BODY]

It asks for /health, or sends BODY as a chat. A line on stdin lets it begin, the next one lets it
end; then it prints the longest time of a request in seconds ("inf": one was not answered).
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

    def __init__(self, process: "subprocess.Popen[str]"):
        self._process = process

    def start(self) -> None:
        """Lets it ask."""
        self._write_line()

    def stop(self) -> float:
        """Lets it end, and returns the longest time of a request in seconds; inf: one was not
        answered."""
        self._write_line()
        assert self._process.stdout is not None
        return float(self._process.stdout.readline())

    def _write_line(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()


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
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Victim(process)
        finally:
            process.terminate()


def measure_worst(url: str, key: str, body: str | None, is_over: threading.Event) -> float:
    """The longest time of a request, of those that are sent until it is over."""
    worst = 0.0
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as client:
        while not is_over.is_set():
            began = time.monotonic()
            try:
                if body is None:
                    client.get("/health").raise_for_status()
                else:
                    client.post("/v1/chat/completions", content=body).raise_for_status()
            except httpx.HTTPError:
                return math.inf
            worst = max(worst, time.monotonic() - began)
            time.sleep(PAUSE)
    return worst


def main() -> None:
    """Asks between two lines of stdin, until it ends."""
    url, key, *bodies = sys.argv[1:]
    body = bodies[0] if bodies else None
    while sys.stdin.readline():
        is_over, found = threading.Event(), list[float]()

        def ask(is_over: threading.Event = is_over, found: list[float] = found) -> None:
            found.append(measure_worst(url, key, body, is_over))

        asking = threading.Thread(target=ask)
        asking.start()
        sys.stdin.readline()
        is_over.set()
        asking.join()
        print(found[0], flush=True)


if __name__ == "__main__":
    main()
