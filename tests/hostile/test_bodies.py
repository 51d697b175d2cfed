"""Long bodies come to an end: they are answered or refused in bounded memory, and meanwhile the
server answers others."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.bodies import BODIES
from benchmarks.attacks.fields import FIELDS
from benchmarks.attacks.grammars import GRAMMARS
from benchmarks.attacks.lengths import LENGTHS
from benchmarks.attacks.ways import WAYS
from benchmarks.processes.served import Served, serve

HANG = 30  # seconds: a bound against hangs, no measure of speed; it was a minute and more
MAX_MEGABYTES = 400
TRIED = (*BODIES, *WAYS, *LENGTHS)
SHORT = (*FIELDS, *GRAMMARS)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve([], ["tests.hostile.serving"]) as server:
        yield server


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


@pytest.mark.parametrize("attack", TRIED, ids=lambda attack: attack.name)
def test_it_ends_beside_others(served: Served, attack: Attack) -> None:
    before = measure_peak(served)
    content = json.dumps(attack.make())
    headers = {"Content-Type": "application/json"}
    with Visitor(served.url) as visitor:
        url = f"{served.url}{attack.path}"
        response = httpx.post(url, content=content, headers=headers, timeout=HANG)
    assert response.status_code in attack.statuses, response.text[:500]
    assert visitor.failures == []
    assert measure_peak(served) - before < MAX_MEGABYTES


@pytest.mark.parametrize("attack", SHORT, ids=lambda attack: attack.name)
def test_it_has_a_fair_answer(served: Served, attack: Attack) -> None:
    url = f"{served.url}{attack.path}"
    headers = {"Content-Type": "application/json"}
    response = httpx.post(url, content=json.dumps(attack.make()), headers=headers, timeout=HANG)
    assert response.status_code in attack.statuses, response.text[:500]
