"""How an attacked server fares: what others get from it, and its memory."""

import threading
from pathlib import Path

import httpx

from benchmarks.processes.served import Served

HANG = 30  # seconds: a bound against hangs, no measure of speed; it was a minute and more


def measure_peak(served: Served) -> float:
    """The most memory that the server has had in use so far, in MB."""
    for line in Path(f"/proc/{served.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the system does not tell")


class Visitor:
    """A client that asks for /health again and again while an attack goes on."""

    def __init__(self, url: str):
        self._url = f"{url}/health"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._visit)
        self.failures: list[str] = []

    def __enter__(self) -> "Visitor":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _visit(self) -> None:
        with httpx.Client(timeout=HANG) as client:
            while not self._is_over.wait(0.05):
                try:
                    client.get(self._url).raise_for_status()
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
