"""Long bodies come to an end: they are answered or refused in bounded memory, and meanwhile the
server answers others."""

import json
from collections.abc import Iterator

import httpx
import pytest

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.bodies import BODIES
from benchmarks.attacks.fields import FIELDS
from benchmarks.attacks.grammars import GRAMMARS
from benchmarks.attacks.lengths import LENGTHS
from benchmarks.attacks.ways import WAYS
from benchmarks.processes.served import Served, serve
from tests.hostile.health import HANG, Visitor, measure_peak

MAX_MEGABYTES = 400
TRIED = (*BODIES, *WAYS, *LENGTHS)
SHORT = (*FIELDS, *GRAMMARS)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve([], ["tests.hostile.serving"]) as server:
        yield server


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
