"""What drafts cost, and that they lose little."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from constrained.decode.drafts.decode_costs import (
    ALLOWANCE,
    ALONE,
    CREDIT,
    FITTED,
    DecodeCosts,
    DraftBudget,
)
from constrained.engine.protocol import Chunk, DecodeSize
from constrained.engine.scripted import ScriptedEngine
from constrained.engine.vocabulary.vocabulary import build_tokenizer
from constrained.mask.matcher import Matcher
from tests.constrained.decode.drafts.draft_requests import GREEDY, ask
from tests.generation import generate
from tests.scripted_model import BYTES


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0, 1)), max_size=200))
def test_drafts_lose_little(steps: Sequence[tuple[int, float]]) -> None:
    budget = DraftBudget()
    lost = 0.0
    for wish, part in steps:
        drafted = min(wish, budget.count_affordable(ALONE))
        saved = int(part * drafted)
        lost += ALONE.find(drafted) - saved
        budget.charge(ALONE.find(drafted), saved)
    assert lost <= CREDIT + ALLOWANCE * len(steps) + 1e-6


def test_drafts_that_fail_come_to_an_end_and_those_that_do_not_grow() -> None:
    failing, right = DraftBudget(), DraftBudget()
    for _ in range(5):
        failing.charge(ALONE.find(failing.count_affordable(ALONE)), 0)
        drafted = right.count_affordable(ALONE)
        right.charge(ALONE.find(drafted), drafted)
    assert failing.count_affordable(ALONE) == 0
    assert right.count_affordable(ALONE) >= 12


def measure_decodes(decode: float, further: float, token: float) -> DecodeCosts:
    """Costs after decodes of up to 8 turns, one of which may have a draft."""
    costs = DecodeCosts()
    shapes = [[1], [1] * 4, [1] * 8, [1, 1, 4], [1] * 7 + [5], [3], [9]]
    for sizes in shapes * 300:
        size = DecodeSize(len({*sizes}), sum(sizes))
        costs.note(size, decode + further * (size.passes - 1) + token * size.tokens)
    return costs


@pytest.mark.parametrize(
    ("decode", "further", "token"),
    [(11.0, 11.0, 5.0), (8.0, 8.0, 0.1), (20.0, 0.0, 1.0), (1e-4, 1e-4, 1e-4)],
)
def test_costs_are_those_of_the_machine(decode: float, further: float, token: float) -> None:
    costs = measure_decodes(decode, further, token)
    for turns in (2, 8):
        a_turn = decode / turns + token
        found = costs.estimate(turns)
        assert found.start == pytest.approx(further / a_turn, rel=0.1, abs=0.2)
        assert found.token == pytest.approx(token / a_turn, rel=0.1, abs=0.1)


def test_a_decode_that_another_process_holds_up_changes_little() -> None:
    costs = measure_decodes(11.0, 11.0, 5.0)
    before = costs.estimate(8)
    costs.note(DecodeSize(1, 8), 10_000.0)
    assert costs.estimate(8).token == pytest.approx(before.token, rel=0.15)


def test_the_costs_of_a_turn_that_runs_alone_depend_on_no_clock() -> None:
    alone = measure_decodes(11.0, 0.0, 50.0).estimate(1)
    assert (alone.start, alone.token) == (ALONE.start, ALONE.token)
    unknown = DecodeCosts().estimate(4)
    assert unknown.token == pytest.approx(FITTED[2] / (FITTED[0] / 4 + FITTED[2]))


def test_a_draft_that_takes_a_pass_of_its_own_has_to_be_long() -> None:
    costs = measure_decodes(11.0, 11.0, 5.0).estimate(8)
    assert not costs.pays(3)
    assert costs.pays(10)
    assert DecodeCosts(evens_out=True).estimate(8).pays(2)


class Metered(ScriptedEngine):
    """Writes a text after a prompt, and knows what its decodes after the prompt have cost."""

    def __init__(self, prompt: bytes, text: bytes):
        super().__init__(BYTES, self._like, context_length=20_000)
        self._whole = prompt + text
        self._length = len(prompt)
        self.cost, self.decodes = 0.0, 0

    def _like(self, sequence: int, tokens: Sequence[int]) -> np.ndarray:
        rest = self._whole[len(tokens) :]
        return np.eye(1, len(BYTES.tokens), rest[0] if rest else BYTES.end[0])[0] * 9

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        size = sum(len(chunk.tokens) for chunk in chunks)
        if chunks[0].position >= self._length:
            self.cost = self.cost + 1 + ALONE.find(size - 1)
            self.decodes = self.decodes + 1
        return super().decode(chunks)


def meter(last: Sequence[str], forced: str) -> tuple[Metered, Metered]:
    """Writes "abcd" with each of these letters, and what the grammar forces then, after a prompt
    that has it with an "e": without and with drafts."""
    prompt = f"abcde{forced} go: ".encode()
    text = "".join(f"abcd{letter}{forced}" for letter in last).encode()
    engines = Metered(prompt, text), Metered(prompt, text)
    for engine, draft in zip(engines, (False, True), strict=True):
        matcher = Matcher.compile(build_tokenizer(BYTES, ()), f'start: (/[a-z]{{5}}/ "{forced}")+')
        asked = ask(prompt, len(text) + 1, GREEDY, draft)
        (generation,) = generate(
            engine, [replace(asked, turn=replace(asked.turn, matcher=matcher))]
        )
        assert generation.text.encode() == text
    return engines


@given(st.lists(st.sampled_from("exy"), min_size=1, max_size=120), st.sampled_from(("-", "--")))
@example(["e", "e", "x", "x"] * 50, "--")
def test_drafts_lose_little_where_the_grammar_forces_a_part_of_them(
    last: Sequence[str], forced: str
) -> None:
    plain, drafted = meter(last, forced)
    assert drafted.cost - plain.cost <= 3 * (CREDIT + ALLOWANCE * plain.decodes) + 1e-6


def test_one_wrong_draft_is_not_the_last_one() -> None:
    plain, drafted = meter("x" * 200, "--")
    assert drafted.cost < 0.9 * plain.cost
