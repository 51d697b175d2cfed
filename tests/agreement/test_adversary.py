"""The adversary and the replays, on the committed sample."""

import random

import pytest

from benchmarks.adversary import play
from benchmarks.replay import read, replay
from benchmarks.tool_sets import SAMPLE, read_rows, sample_paths
from constrained.generation import Finish

TURNS = 280  # twenty of each format and tool_choice


def test_random_logits_give_valid_calls_or_none() -> None:
    rows = list(read_rows(sample_paths()))
    picks = random.Random(3).choices(rows, k=TURNS)
    outcomes = [o for n, row in enumerate(picks) if (o := play(row, n, 3)) is not None]
    assert len(outcomes) == TURNS
    assert not [fault for o in outcomes for fault in o.faults]
    complete = [o for o in outcomes if o.finish is Finish.STOP]
    assert len(complete) >= 0.95 * TURNS
    assert sum(o.calls > 0 for o in complete) >= len(complete) / 2


def test_no_cut_turn_delivers_a_cut_call() -> None:
    rows = list(read_rows(sample_paths()))
    picks = random.Random(4).choices(rows, k=TURNS)
    outcomes = [o for n, row in enumerate(picks) if (o := play(row, n, 4, 60)) is not None]
    assert not [fault for o in outcomes for fault in o.faults]
    assert sum(o.finish is Finish.LENGTH for o in outcomes) >= TURNS / 4


@pytest.mark.parametrize("markers", ["text", "token"])
def test_recorded_turns_read_as_they_should(markers: str) -> None:
    rows = list(read(sorted(SAMPLE.glob("turns_*.jsonl"))))
    assert len(rows) == 41
    wrong = [answer for _, answer, verdict in replay(rows, markers) if verdict != "right"]
    assert not wrong
