"""`constrained bench` measures what it says, in the time that it has."""

import json

import pytest

from constrained.inspect import speed
from constrained.inspect.speed import LAST, Figure
from tests.command_line import Run

FEW = "-p 32 -n 16 -r 1 -c 2048".split()


def test_all_figures(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(speed, "DAYS", 1)  # of the long call
    code, out, err = run("bench", "-np", "2", *FEW, "--json")
    assert code == 0
    results = {row["test"]: row for row in json.loads(out)["results"]}
    assert list(results) == [
        *("load", "memory", "pp32", "tg16", "tg16 x 2 sequences"),
        *("short call", "short call, mask (mean)", "short call, mask (p99)"),
        *("long call", "long call, mask (mean)", "long call, mask (p99)"),
        *("first token, new prompt", LAST),
    ]
    assert all(row["value"] > 0 and row["samples"] for row in results.values())
    for call in ("short call", "long call"):
        mean, last = (results[f"{call}, mask ({kind})"]["value"] for kind in ("mean", "p99"))
        assert mean <= last
    for test in list(results)[2:]:
        assert f"constrained: {test}: " in err


def test_without_time_the_tests_are_small_and_some_are_left_out(run: Run):
    code, out, err = run("bench", "-np", "1", "--seconds", "0.001", "-c", "2048")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        *("test", "load", "memory", "pp16", "tg16")
    ]
    assert "raise --seconds" in err


@pytest.mark.parametrize("option", ["-p", "-n", "-r", "--seconds"])
def test_numbers_that_cannot_be(run: Run, option: str):
    code, out, err = run("bench", option, "0")
    assert (code, out) == (2, "")
    assert "must be more than 0" in err


def test_the_value_is_the_median():
    assert Figure("x", "ms", (5.0, 1.0, 2.0)).value == 2.0
