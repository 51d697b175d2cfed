"""Chunks of different sizes: how many passes of the model they take, and what is left for later."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.decode.request import DecodeOptions, Request
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.job import Job
from constrained.model.model import Model
from constrained.schedule.passes import choose_sizes, even_out
from constrained.template.chat_template import ChatTemplate
from tests.generation import generate
from tests.scripted_model import BYTES
from tests.templates import HERMES, tool

SHORT = {"type": "string", "maxLength": 4}
NOTE = tool("note", dict.fromkeys(("to", "name", "subject", "signature"), SHORT))


def gain(sizes: list[int]) -> int:
    """The tokens of these chunks, less what their passes cost."""
    return sum(sizes) - len(sizes) * len(set(sizes))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
@settings(max_examples=50)
def test_no_other_sizes_are_better(sizes: list[int]) -> None:
    even = choose_sizes(sizes)
    assert all(min(sizes) <= one <= size for one, size in zip(even, sizes, strict=True))
    options = product(*(range(min(sizes), size + 1) for size in sizes))
    assert gain(even) == max(gain([*option]) for option in options)


def test_a_long_forced_text_keeps_a_pass_of_its_own() -> None:
    assert choose_sizes([1, 1, 1, 1]) == [1, 1, 1, 1]
    assert choose_sizes([1, 1, 2, 64]) == [1, 1, 1, 64]
    assert choose_sizes([1, 6, 1, 7]) == [1, 6, 1, 6]
    assert choose_sizes([5]) == [5]
    assert choose_sizes([]) == []


def test_a_shorter_chunk_wants_the_logits_of_the_tokens_that_are_left() -> None:
    drafted = Chunk(0, [5, 6, 7, 8], 10, wanted=3)  # two certain tokens and two drafted ones
    others = [Chunk(number, [1, 2, 3], 10) for number in (1, 2, 3)]
    prompt = Chunk(4, [*range(16)], 0, wanted=0)
    assert even_out([drafted], set()) == [drafted]
    assert even_out([drafted, *others], set()) == [Chunk(0, [5, 6, 7], 10, wanted=2), *others]
    short = [Chunk(number, [1], 10) for number in range(1, 4)]
    assert even_out([drafted, *short], set()) == [Chunk(0, [5], 10, wanted=0), *short]
    assert even_out([prompt, drafted, *short], {4})[0] == prompt


class NotedEngine(ScriptedEngine):
    """A scripted engine that notes the passes of its decodes."""

    passes = 0

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self.passes += len({len(chunk.tokens) for chunk in chunks})
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
            replies = generate(engine, requests, clock=lambda: 0.0)
        texts[splits] = [reply.text for reply in replies]
        passes[splits] = engine.passes
    assert texts[True] == texts[False]
    assert passes[True] < 0.9 * passes[False]
