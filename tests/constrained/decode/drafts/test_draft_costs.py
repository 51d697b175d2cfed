"""What drafts cost, and that they lose little."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from constrained.decode.drafts.draft_budget import ALLOWANCE, CREDIT, DraftBudget, find_cost
from constrained.engine.protocol import Chunk
from constrained.engine.scripted import ScriptedEngine
from constrained.mask import Matcher
from constrained.schedule.generation import generate
from constrained.vocabulary.vocabulary import build_tokenizer
from tests.constrained.decode.drafts.test_drafts import BYTES, GREEDY, ask


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0, 1)), max_size=200))
def test_drafts_lose_little(steps: Sequence[tuple[int, float]]) -> None:
    budget = DraftBudget()
    lost = 0.0
    for wish, part in steps:
        drafted = min(wish, budget.affords)
        saved = int(part * drafted)
        lost += find_cost(drafted) - saved
        budget.charge(drafted, saved)
    assert lost <= CREDIT + ALLOWANCE * len(steps) + 1e-6


def test_drafts_that_fail_come_to_an_end_and_those_that_do_not_grow() -> None:
    failing, right = DraftBudget(), DraftBudget()
    for _ in range(5):
        failing.charge(failing.affords, 0)
        right.charge(right.affords, right.affords)
    assert failing.affords == 0
    assert right.affords >= 12


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
            self.cost = self.cost + 1 + find_cost(size - 1)
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
