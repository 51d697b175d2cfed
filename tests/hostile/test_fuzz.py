"""Damaged inputs: a few of those of `python -m benchmarks.fuzz`, and whether it finds anything."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from benchmarks import fuzz
from benchmarks.fuzz import search
from benchmarks.fuzzing.inputs import damaged_json
from benchmarks.fuzzing.targets import TARGETS, FuzzTarget
from constrained.errors import RequestError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_read_or_refused(name: str) -> None:
    done = search(TARGETS[name], 7, examples=12)
    if done.finding is not None:
        raise AssertionError(repr(done.finding.value)) from done.finding.error
    assert done.accepted + done.refused > 0


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_not_damaged_is_read(name: str) -> None:
    for value in TARGETS[name].bases:
        TARGETS[name].read(value)


def test_a_crash_is_found_and_made_small() -> None:
    def read(value: dict[str, Any]) -> None:
        if "a" not in value:
            raise RequestError("there is no a")
        if value.get("b") is None:
            raise KeyError("b")

    done = search(FuzzTarget(damaged_json([{"a": 1, "b": [2], "c": {"d": 3}}]), read), 0)
    assert done.finding is not None
    assert isinstance(done.finding.error, KeyError)
    assert done.finding.value in ({"a": 1, "c": {"d": 3}}, {"a": 1, "b": None, "c": {"d": 3}})


def test_errors_are_no_findings() -> None:
    def read(value: int) -> None:
        if value > 10:
            raise RequestError("too much")

    done = search(FuzzTarget(st.integers(0, 1000), read), 0, examples=50)
    assert done.finding is None
    assert done.refused > 0
    assert done.accepted > 0


ENDLESS = """
import sys, time
from pathlib import Path
from hypothesis import strategies as st
from benchmarks.fuzz import search
from benchmarks.fuzzing.targets import FuzzTarget
search(FuzzTarget(st.just("x"), lambda x: time.sleep(600)), 0, limit=0.2, note=Path(sys.argv[1]))
"""


def test_an_input_that_takes_too_long_ends_the_process(tmp_path: Path) -> None:
    note = tmp_path / "note"
    began = time.monotonic()
    command = [sys.executable, "-c", ENDLESS, str(note)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert time.monotonic() - began < 300  # also on a crowded machine
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert note.read_text() == "'x'"


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fuzz", "formats", "--rounds", "1", "--examples", "5"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.chdir(ROOT)
    assert fuzz.main() == 0
    assert capsys.readouterr().out.endswith("refused\n0 findings\n")
