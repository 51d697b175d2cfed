"""Drafts on a real llama.cpp: many logits of one decode, and what a greedy model writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest

from constrained import Model, Sampling, load
from constrained.engine.llamacpp import LlamaEngine, borrow
from constrained.engine.llamacpp import load as load_engine
from constrained.engine.protocol import MAX_DRAFTED, Chunk
from constrained.model_files import embedded
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.constrained.decode.recurrent_file import write_recurrent
from tests.replies import uncounted
from tests.templates import HERMES

GREEDY = Sampling(temperature=0)
NOTE = {
    "name": "send_note",
    "description": "Send a note to somebody",
    "parameters": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
        "required": ["to", "text"],
    },
}
QUESTIONS = (
    'Send Anna the note "The meeting is on Monday at noon in the big room next to the kitchen".',
    'Send Tom the note "Please buy bread and milk and eggs on the way home from work today".',
    "Send Maria Gonzalez a note.",
    "What is the weather like?",
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.gguf"
    return write_model(path, with_markers(load_small(), MARKERS), HERMES, n_layer=2)


@pytest.fixture(scope="module")
def engine(path: Path) -> Iterator[LlamaEngine]:
    with load_engine(path, context_length=4096, sequences=3, threads=1) as engine:
        yield engine


def test_the_logits_after_several_tokens(engine: LlamaEngine) -> None:
    texts = [range(300, 309), range(320, 324), range(340, 353)]
    alone: list[np.ndarray] = []
    for number, tokens in enumerate(texts):
        for place, token in enumerate(tokens):
            (row,) = engine.decode([Chunk(number, [token], place)])
            if place >= len(tokens) - (3, 0, 5)[number]:
                alone.append(row.copy())
        engine.release(number)
    wanted = zip(texts, (3, 0, 5), strict=True)
    chunks = [Chunk(n, tokens, 0, wanted=count) for n, (tokens, count) in enumerate(wanted)]
    rows = engine.decode(chunks)
    assert [int(row.argmax()) for row in rows] == [int(row.argmax()) for row in alone]
    np.testing.assert_allclose(rows, alone, atol=0.05)
    sampler = engine.sampler(GREEDY)
    assert [sampler.sample(slot) for slot in range(8)] == [int(row.argmax()) for row in rows]
    for number in range(3):
        engine.release(number)


def test_a_draft_beside_a_long_prompt(engine: LlamaEngine) -> None:
    """What is wanted is in the last batch, however many it takes."""
    chunks = [Chunk(0, [5] * 2500, 0), Chunk(1, range(300, 310), 0, wanted=4)]
    rows = [row.copy() for row in engine.decode(chunks)]
    engine.release(0)
    engine.release(1)
    alone = engine.decode([chunks[1]])
    assert len(rows) == 5
    np.testing.assert_allclose(rows[1:], alone, atol=0.05)
    engine.release(1)


def test_no_more_logits_than_there_is_room_for(engine: LlamaEngine) -> None:
    assert engine.max_drafted == MAX_DRAFTED
    most = [Chunk(n, [5] * (MAX_DRAFTED + 2), 0, wanted=1) for n in range(3)]
    many = [Chunk(0, [5] * (MAX_DRAFTED + 2), 0, wanted=MAX_DRAFTED + 2), *most[1:]]
    with pytest.raises(ValueError, match=f"{MAX_DRAFTED + 1} more .* limit is {MAX_DRAFTED}"):
        engine.decode(many)
    with pytest.raises(ValueError, match="sequence 0 wants 3 logits of 2 tokens"):
        engine.decode([Chunk(0, [5, 6], 0, wanted=3)])
    full = [Chunk(0, [5] * (MAX_DRAFTED + 1), 0, wanted=MAX_DRAFTED + 1), *most[1:]]
    assert len(engine.decode(full)) == MAX_DRAFTED + 3
    for number in range(3):
        engine.release(number)


def write(model: Model, question: str) -> Any:
    given: Any = {"sampling": GREEDY, "max_tokens": 100}
    return model.call(question, [NOTE], tool_choice="required", parallel=False, **given)


def test_the_demo_model_writes_the_same_with_fewer_passes() -> None:
    passes = [0, 0]
    with load(embedded.PATH, threads=1, draft=False) as plain, load(threads=1) as drafting:
        for question in QUESTIONS:
            replies = [write(model, question) for model in (plain, drafting)]
            assert uncounted(replies[0]) == uncounted(replies[1])
            assert replies[0].usage.drafted_tokens == 0
            for n, reply in enumerate(replies):
                passes[n] += reply.usage.forward_passes
    assert 1.5 * passes[1] < passes[0]


def test_a_model_that_keeps_no_past_gets_no_drafts(tmp_path: Path) -> None:
    with load(write_recurrent(tmp_path / "mamba.gguf"), threads=1) as model:
        assert write(model, QUESTIONS[0]).usage.drafted_tokens == 0


@pytest.mark.parametrize(("size", "most"), [(1, 0), (4, 3), (64, MAX_DRAFTED)])
def test_a_borrowed_model_with_small_batches(path: Path, size: int, most: int) -> None:
    llama = llama_cpp.Llama(str(path), n_ctx=512, n_batch=size, n_threads=1, verbose=False)
    with borrow(llama) as engine:
        assert engine.max_drafted == most
        rows = engine.decode([Chunk(0, range(300, 320), 0, wanted=1 + most)])
        assert len(rows) == 1 + most
    llama.close()
