"""Chunks of different sizes: how many passes of the model they take, and what is left for later."""

from collections.abc import Mapping, Sequence, Set

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.decode.request import DecodeOptions, Request
from constrained.decode.schedule.batch_plan import level_off
from constrained.engine.batch import count_passes
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from tests.generation import generate
from tests.scripted_model import BYTES
from tests.templates import HERMES, tool

SHORT = {"type": "string", "maxLength": 8}
NOTE = tool("note", {"a": SHORT, "b": SHORT, "c": SHORT})


def make_chunks(sizes: Mapping[int, int]) -> list[Chunk]:
    """Chunks of these sizes, by the number of the sequence."""
    return [Chunk(number, [1] * size, 0) for number, size in sizes.items()]


def find_gain(chunks: Sequence[Chunk], prompts: Set[int]) -> int:
    """The tokens of turns in these chunks, less what the passes cost."""
    sizes = [len(chunk.tokens) for chunk in chunks if chunk.sequence not in prompts]
    return sum(sizes) - len(sizes) * count_passes(chunks)


@given(
    st.dictionaries(st.integers(0, 5), st.integers(1, 6), min_size=1, max_size=4),
    st.sets(st.integers(0, 5), max_size=2),
)
@example({0: 1, 1: 3, 2: 4}, {1})
@settings(max_examples=50)
def test_no_other_level_is_better(sizes: dict[int, int], prompts: set[int]) -> None:
    sizes = dict(sorted(sizes.items()))
    chosen = level_off(make_chunks(sizes), prompts)
    assert [chunk.sequence for chunk in chosen] == [*sizes]
    assert all(1 <= len(chunk.tokens) <= sizes[chunk.sequence] for chunk in chosen)
    for chunk in chosen:
        assert chunk.sequence not in prompts or len(chunk.tokens) == sizes[chunk.sequence]
    gains: list[int] = []
    for level in range(1, 7):
        cut = {number: min(size, level) for number, size in sizes.items() if number not in prompts}
        gains.append(find_gain(make_chunks({**sizes, **cut}), prompts))
    assert find_gain(chosen, prompts) == max(gains)


def choose(*sizes: int) -> list[int]:
    chunks = level_off(make_chunks(dict(enumerate(sizes))), set())
    return [len(chunk.tokens) for chunk in chunks]


def test_a_long_forced_text_keeps_a_pass_of_its_own() -> None:
    assert choose(1, 1, 1, 1) == [1, 1, 1, 1]
    assert choose(1, 1, 1, 64) == [1, 1, 1, 64]
    assert choose(1, 1, 6, 7) == [1, 1, 6, 6]
    assert choose(1, 4, 1, 4) == [1, 1, 1, 1]  # these are no neighbours
    assert choose(5) == [5]
    assert choose() == []


def test_a_shorter_chunk_wants_the_logits_of_the_tokens_that_are_left() -> None:
    drafted = Chunk(0, [5, 6, 7, 8], 10, wanted=3)  # two certain tokens and two drafted ones
    others = [Chunk(number, [1, 2, 3], 10) for number in (1, 2, 3)]
    prompt = Chunk(4, [*range(16)], 0, wanted=0)
    assert level_off([drafted], set()) == [drafted]
    assert level_off([drafted, *others], set()) == [Chunk(0, [5, 6, 7], 10, wanted=2), *others]
    short = [Chunk(number, [1], 10) for number in range(1, 4)]
    assert level_off([drafted, *short], set()) == [Chunk(0, [5], 10, wanted=0), *short]
    assert level_off([prompt, drafted, *short], {4})[0] == prompt


def stopped() -> float:
    """A clock that stands still."""
    return 0.0


class NotedEngine(ScriptedEngine):
    """A scripted engine that notes the passes of its decodes."""

    passes = 0

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self.passes += count_passes(chunks)
        return super().decode(chunks)


@pytest.mark.parametrize("draft", [False, True])
def test_turns_are_the_same_in_fewer_passes(draft: bool) -> None:
    passes = dict[bool, int]()
    texts = dict[bool, list[str]]()
    for splits in (False, True):
        engine = NotedEngine(BYTES, random_logits(BYTES))
        engine.splits_uneven = splits
        with Model(engine, ChatTemplate(HERMES)) as model:
            turns = [
                model.compile(
                    Job([{"role": "user", "content": "x" * number}], [NOTE], tool_choice="required")
                )
                for number in range(1, 9)
            ]
            options = DecodeOptions(max_tokens=150, sampling=Sampling(seed=1), draft=draft)
            # Without the thread of the model: all turns begin in the same step.
            requests = [Request(turn.make_input(), options) for turn in turns]
            replies = generate(engine, requests, clock=stopped, cpu_clock=stopped)
        texts[splits] = [reply.text for reply in replies]
        passes[splits] = engine.passes
    assert texts[True] == texts[False]
    assert passes[True] < 0.9 * passes[False]
