"""The adversary, the endings, the reasoning budget and the replays, on the committed sample."""

import random
from dataclasses import replace

import pytest

from benchmarks import adversary, endings
from benchmarks.inputs.asks import POLICIES, ask, find_faults
from benchmarks.inputs.sources import TEMPLATES, read_teaching
from benchmarks.inputs.stage import stage
from benchmarks.inputs.tool_sets import SAMPLE, read_rows, sample_paths
from benchmarks.replay import read, replay
from grammars.turn import Think
from grammars.wire.formats import FORMATS
from tests.agreement.chosen_formats import IS_THOROUGH
from tests.real_templates import require_models_directory

TURNS = (20 if IS_THOROUGH else 2) * len(TEMPLATES)


def picks(seed: int, count: int) -> list[dict[str, object]]:
    require_models_directory()  # most formats are played on the templates of llama.cpp
    rows = list(read_rows(sample_paths()))
    return random.Random(seed).choices(rows, k=count)


def test_random_logits_give_valid_calls_or_a_fitting_answer() -> None:
    played = (adversary.play(row, n, 3) for n, row in enumerate(picks(3, TURNS)))
    outcomes = [o for o in played if o is not None]
    assert len(outcomes) >= 0.95 * TURNS
    assert not [fault for o in outcomes for fault in o.faults]
    assert {o.policy for o in outcomes} == set(POLICIES)
    assert {o.format for o in outcomes} == set(TEMPLATES) == {f.name for f in FORMATS}
    assert sum(o.finish != "length" for o in outcomes) >= 0.95 * len(outcomes)
    assert sum(o.calls > 0 for o in outcomes) >= len(outcomes) / 4


def test_turns_end_well_when_the_tokens_run_out() -> None:
    played = (endings.play(row, 5 * n, 4, 1) for n, row in enumerate(picks(4, 15)))
    outcomes = [o for os in played for o in os]
    assert not [fault for o in outcomes for fault in o.faults]
    ended = [o for o in outcomes if o.finish == "length"]
    assert len(ended) >= len(outcomes) / 5
    assert sum(o.truncated for o in ended) >= 10
    assert any(o.finish == "refused" for o in outcomes)


@pytest.mark.parametrize("budget", [0, 1, 32, 500])
def test_an_open_block_is_closed_when_its_tokens_are_spent(budget: int) -> None:
    names = [name for name in TEMPLATES if read_teaching(name).format.reasoning]
    spent = 0
    for number, row in enumerate(picks(5, 12)):
        draw = random.Random(f"{number}/{budget}")
        markers = draw.choice(["text", "token"])
        place = stage(names[5 * number % len(names)], f"bytes, {markers}")
        request = ask(row, place.teaching, "required", draw)
        if request is None:
            continue
        on = draw.choice([True, True, None, False])
        job = replace(
            request.job,
            think=Think.OPTIONAL,
            template_kwargs={} if on is None else {"enable_thinking": on},
            reasoning_budget=budget,
            reasoning_close=draw.choice(["", "That is enough."]),
        )
        turn = place.compile(job)
        reply = place.play(turn, draw.randrange(2**32), 8_192, thinks=True)
        assert find_faults(request, turn, reply) == []
        assert reply.usage.reasoning_tokens <= budget
        assert "\ufffd" not in reply.reasoning, "a cut character"
        spent = max(spent, reply.usage.reasoning_tokens)
    assert spent == budget


@pytest.mark.parametrize("markers", ["text", "token"])
def test_recorded_turns_read_as_they_should(markers: str) -> None:
    rows = list(read(sorted(SAMPLE.glob("turns_*.jsonl"))))
    assert len(rows) == 41
    wrong = [answer for _, answer, verdict in replay(rows, markers) if verdict != "right"]
    assert not wrong
