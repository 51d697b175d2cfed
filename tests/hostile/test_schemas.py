"""Every hostile schema comes to an end: it is answered or refused, in bounded time and memory."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.schemas import ATTACKS
from tests.hostile.children import Outcome
from tests.scripted_model import wishing

MAX_MEGABYTES = 300


@pytest.fixture(scope="module")
def children() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.children"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("number", range(len(ATTACKS)), ids=lambda number: ATTACKS[number].name)
def test_it_ends(number: int, children: "subprocess.Popen[str]") -> None:
    attack: Attack = ATTACKS[number]
    assert children.stdin is not None
    assert children.stdout is not None
    print(number, file=children.stdin, flush=True)
    outcome = Outcome(**json.loads(children.stdout.readline()))
    assert outcome.status in attack.statuses, outcome
    assert outcome.megabytes < MAX_MEGABYTES, outcome


def test_a_long_name_beside_patterns_needs_no_deep_stack() -> None:
    schema = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}},
        "if": {"required": ["next"]},
        "then": {"required": ["x" * 2_000]},
        "patternProperties": {"^x-": {"not": {"type": "null"}}},
    }
    with wishing("{}") as model:
        assert model.generate("Hi", schema=schema) == {}
