"""Both engines, by what the protocol says of them."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from constrained.engine.llamacpp import LlamaEngine, load
from constrained.engine.protocol import Chunk, Engine, Sampler, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.engine.vocabulary.vocabulary import build_tokenizer, byte_vocabulary
from constrained.errors import ContextError, ModelError
from constrained.mask.matcher import Matcher
from examples.random_model import MARKERS, load_small, with_markers, write_model

GREEDY = Sampling(temperature=0)
CLOSE = 0.3  # logits deviate by 3; batches of other shapes are rounded differently
BYTES = byte_vocabulary(MARKERS)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokens = with_markers(load_small(), MARKERS)
    file = tmp_path_factory.mktemp("model") / "model.gguf"
    return write_model(file, tokens, "{{ messages }}", context_length=1024)


@pytest.fixture(scope="module")
def llama(path: Path) -> Iterator[LlamaEngine]:
    with load(path, sequences=4, context_length=512) as engine:
        yield engine


@pytest.fixture(params=["llama", "scripted"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "scripted":
        engine: Engine = ScriptedEngine(
            BYTES, random_logits(BYTES), context_length=512, max_sequences=4
        )
    else:
        engine = request.getfixturevalue("llama")
    yield engine
    for sequence in range(engine.max_sequences):
        engine.release(sequence)


def generate(engine: Engine, sequence: int, prompt: list[int], count: int) -> list[int]:
    sampler = engine.sampler(GREEDY)
    tokens = list(prompt)
    chunk = prompt
    while len(tokens) < len(prompt) + count:
        engine.decode([Chunk(sequence, chunk, len(tokens) - len(chunk))])
        chunk = [sampler.sample(0)]
        tokens += chunk
    return tokens[len(prompt) :]


def test_sequences_together_continue_as_alone(engine: Engine):
    prompts = [engine.vocabulary.encode(text) for text in ("Hello world", "a", "one, two, three")]
    alone = [generate(engine, number, prompt, 12) for number, prompt in enumerate(prompts)]
    for sequence in range(3):
        engine.release(sequence)
    logits = engine.decode([Chunk(n, prompt, 0) for n, prompt in enumerate(prompts)])
    for step in range(11):
        for row, tokens in zip(logits, alone, strict=True):
            assert row[tokens[step]] > row.max() - CLOSE
        logits = engine.decode(
            [Chunk(n, [alone[n][step]], len(prompts[n]) + step) for n in range(3)]
        )


def test_decoding_in_parts_equals_decoding_at_once(engine: Engine):
    prompt = engine.vocabulary.encode("The quick brown fox jumps over the lazy dog.")
    (logits,) = engine.decode([Chunk(0, prompt, 0)])
    at_once = logits.copy()
    for start in range(0, len(prompt), 5):
        (logits,) = engine.decode([Chunk(1, prompt[start : start + 5], start)])
    assert logits.dtype == np.float32
    assert logits.shape == (len(engine.vocabulary.tokens),)
    np.testing.assert_allclose(logits, at_once, atol=CLOSE)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([Chunk(0, [1], 1)], "is at 1, but the sequence has 0 tokens"),
        ([Chunk(4, [1], 0)], "there are 4 sequences"),
        ([Chunk(-1, [1], 0)], "there are 4 sequences"),
        ([Chunk(0, [], 0)], "has no tokens"),
        ([Chunk(0, [1], 0), Chunk(0, [1], 1)], "there is a second one"),
        ([Chunk(1, [1], 0), Chunk(0, [1], 0)], "comes after that of sequence 1"),
    ],
)
def test_chunks_that_do_not_fit_together(engine: Engine, chunks: list[Chunk], message: str):
    with pytest.raises(ValueError, match=message):
        engine.decode(chunks)


def test_what_is_rolled_back_leaves_no_trace(engine: Engine):
    prompt = [5, 6, 7, 8]
    (logits,) = engine.decode([Chunk(0, prompt, 0)])
    wanted = logits.copy()
    engine.decode([Chunk(0, [9, 10, 11], 4)])
    assert engine.rollback(0, 3)
    (logits,) = engine.decode([Chunk(0, prompt[3:], 3)])
    assert np.allclose(logits, wanted, atol=CLOSE)
    assert logits.argmax() == wanted.argmax()
    with pytest.raises(ValueError, match="has 4 tokens"):
        engine.decode([Chunk(0, [9], 7)])


def test_overlap_is_an_error(engine: Engine):
    engine.decode([Chunk(0, [1, 2, 3], 0)])
    with pytest.raises(ValueError, match="is at 2, but the sequence has 3 tokens"):
        engine.decode([Chunk(0, [4], 2)])


def test_context_overflow(engine: Engine):
    engine.decode([Chunk(0, [1] * 500, 0)])
    with pytest.raises(ContextError, match="513 tokens do not fit into a context of 512"):
        engine.decode([Chunk(0, [1] * 13, 500)])
    engine.decode([Chunk(0, [1] * 12, 500)])  # a refused chunk leaves the sequence as it was


def test_unknown_token_releases_the_sequence(engine: Engine):
    engine.decode([Chunk(0, [1], 0)])
    with pytest.raises(ModelError):
        engine.decode([Chunk(0, [10**6], 1)])
    engine.decode([Chunk(0, [1], 0)])


def test_nothing_to_decode(engine: Engine):
    assert engine.decode([]).shape == (0, len(engine.vocabulary.tokens))


def test_sampling_sees_what_is_changed_in_the_logits(engine: Engine):
    rows = engine.decode([Chunk(0, [65], 0), Chunk(1, [66], 0)])
    for token, row in zip((70, 71), rows, strict=True):
        row[:] = -np.inf
        row[token] = 0
    for sampling in (GREEDY, Sampling(), Sampling(top_k=0, top_p=1, min_p=0)):
        sampler = engine.sampler(sampling)
        sampler.accept(65)
        assert [sampler.sample(0), sampler.sample(1)] == [70, 71]
        sampler.close()


def draws(engine: Engine, sampling: Sampling, count: int = 40) -> list[int]:
    sampler = engine.sampler(sampling)
    return [sampler.sample(0) for _ in range(count)]


def test_seeds(engine: Engine):
    engine.decode([Chunk(0, [65], 0)])
    sampling = Sampling(temperature=5, top_k=0, top_p=1, min_p=0)
    one = draws(engine, replace(sampling, seed=1))
    assert one == draws(engine, replace(sampling, seed=1))
    assert one != draws(engine, replace(sampling, seed=2))
    assert draws(engine, sampling) != draws(engine, sampling)


def test_truncation(engine: Engine):
    (row,) = engine.decode([Chunk(0, [65], 0)])
    row[:] = -np.inf
    row[[70, 71, 72, 73]] = np.log([0.5, 0.3, 0.15, 0.05])
    everything = Sampling(temperature=1, top_k=0, top_p=1, min_p=0, seed=3)
    assert set(draws(engine, everything, 300)) == {70, 71, 72, 73}
    assert set(draws(engine, replace(everything, top_k=2), 300)) == {70, 71}
    assert set(draws(engine, replace(everything, top_p=0.9), 300)) == {70, 71, 72}
    assert set(draws(engine, replace(everything, min_p=0.4), 300)) == {70, 71}
    assert set(draws(engine, replace(everything, top_p=0), 300)) == {70}
    assert set(draws(engine, replace(everything, temperature=0.01), 300)) == {70}


def run(engine: Engine, matcher: Matcher, prompt: list[int], sampler: Sampler) -> list[int]:
    """The loop that the library is about: mask, sample, commit, decode."""
    tokens: list[int] = []
    chunk, position = prompt, 0
    while not matcher.is_finished:
        (logits,) = engine.decode([Chunk(0, chunk, position)])
        position += len(chunk)
        only = matcher.apply(logits)
        token = sampler.sample(0) if only is None else only
        matcher.commit(token)
        if matcher.ends(token):
            break
        chunk = [token, *matcher.forced()]
        for forced in chunk[1:]:
            matcher.commit(forced)
            sampler.accept(forced)
        tokens += chunk
    return tokens


def test_random_weights_follow_a_grammar(engine: Engine):
    vocabulary = engine.vocabulary
    marker = vocabulary.marker("<tool_call>")
    schema = {
        "x-guidance": {"whitespace_flexible": False},
        "properties": {"a": {"const": "a </think> b"}, "b": {"enum": [1, 22]}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "type": "object",
    }
    grammar = f"start: <[{marker}]> json\njson: %json {json.dumps(schema)}"
    compiled = Matcher.compile(build_tokenizer(vocabulary, MARKERS), grammar)
    for seed in range(5):
        sampler = engine.sampler(Sampling(temperature=1.5, seed=seed))
        text = vocabulary.text(run(engine, compiled.fork(), vocabulary.encode("Hi"), sampler))
        engine.release(0)
        data = json.loads(text.removeprefix(b"<tool_call>"))
        assert data in ({"a": "a </think> b", "b": 1}, {"a": "a </think> b", "b": 22})


@pytest.mark.parametrize("kind", ["llama", "scripted"])
def test_nothing_works_after_close(kind: str, path: Path):
    opened: AbstractContextManager = (
        load(path) if kind == "llama" else ScriptedEngine(BYTES, random_logits(BYTES))
    )
    with opened as engine:
        engine.decode([Chunk(0, [1], 0)])
        closed, open_ = engine.sampler(GREEDY), engine.sampler(GREEDY)
        closed.close()
        closed.close()
        with pytest.raises(ModelError, match="the sampler is closed"):
            closed.sample(0)
        with pytest.raises(ModelError, match="the sampler is closed"):
            closed.accept(0)
    engine.close()
    for call in (lambda: engine.decode([]), lambda: open_.sample(0), lambda: engine.release(0)):
        with pytest.raises(ModelError, match="the model is closed"):
            call()


@pytest.mark.parametrize("length", [1, 30, 64])
def test_a_copy_goes_on_as_its_source_would(engine: Engine, length: int):
    tokens = [5 + n % 60 for n in range(64)]
    engine.decode([Chunk(0, tokens, 0)])
    (logits,) = engine.decode([Chunk(1, [*tokens[:length], 9], 0)])
    wanted = logits.copy()
    assert engine.can_cut(0, length)
    engine.copy(0, 2, length)
    (logits,) = engine.decode([Chunk(2, [9], length)])
    np.testing.assert_allclose(logits, wanted, atol=CLOSE)
    engine.decode([Chunk(0, [9], 64)])  # the source is as it was


def test_what_cannot_be_copied(engine: Engine):
    engine.decode([Chunk(0, [1, 2, 3], 0), Chunk(1, [1], 0)])
    with pytest.raises(ValueError, match="sequence 1 has 1 tokens already"):
        engine.copy(0, 1, 2)
    assert not engine.can_cut(0, 4)
    with pytest.raises(ValueError, match="sequence 0 cannot be cut to 4 tokens"):
        engine.copy(0, 2, 4)


def test_logits_that_nobody_wants_are_not_computed(engine: Engine):
    (one,) = engine.decode([Chunk(0, [1, 2], 0), Chunk(1, [1, 2], 0, wanted=0)])
    assert one.shape == (len(engine.vocabulary.tokens),)
    assert len(engine.decode([Chunk(1, [3], 2, wanted=0)])) == 0
