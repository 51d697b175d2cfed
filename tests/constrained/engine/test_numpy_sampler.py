"""Biases and penalties, of both engines: what they do to the tokens that are sampled."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constrained.engine.llamacpp import ChainSampler, LlamaEngine, load
from constrained.engine.numpy_sampler import RowSampler, adjust_logits, find_candidates
from constrained.engine.protocol import Chunk, Engine, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.engine.vocabulary.vocabulary import build_tokenizer, byte_vocabulary
from constrained.errors import GrammarError, ModelError, RequestError
from constrained.mask.matcher import Matcher
from constrained.model_files import embedded

BYTES = byte_vocabulary()
GREEDY = Sampling(temperature=0)
EVERYTHING = Sampling(temperature=1, top_k=0, top_p=1, min_p=0, seed=3)
BIAS = 50.0


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaEngine]:
    with load(embedded.PATH, context_length=256, threads=1) as engine:
        yield engine


@pytest.fixture(params=["llama", "scripted"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "scripted":
        engine: Engine = ScriptedEngine(BYTES, random_logits(BYTES), context_length=256)
    else:
        engine = request.getfixturevalue("llama")
    yield engine
    engine.release(0)


def lay_out(engine: Engine, logits: Mapping[int, float]) -> np.ndarray:
    """Decodes a token; the logits after it are these, all others are forbidden."""
    engine.release(0)
    (row,) = engine.decode([Chunk(0, [65], 0)])
    row[:] = -np.inf
    for token, value in logits.items():
        row[token] = value
    return row


def sample(engine: Engine, sampling: Sampling, before: Sequence[int] = ()) -> int:
    sampler = engine.sampler(sampling)
    if before:
        sampler.recall(before)
    token = sampler.sample(0)
    sampler.close()
    return token


@pytest.mark.parametrize("sampling", [GREEDY, EVERYTHING, replace(EVERYTHING, top_k=1)])
def test_a_bias_moves_what_is_sampled(engine: Engine, sampling: Sampling):
    lay_out(engine, {70: 5.0, 71: 4.0, 72: 3.0})
    assert sample(engine, replace(sampling, logit_bias={72: BIAS})) == 72
    assert sample(engine, replace(sampling, logit_bias={70: -BIAS, 72: -BIAS})) == 71
    assert sample(engine, replace(sampling, logit_bias={70: -math.inf, 71: -math.inf})) == 72


@pytest.mark.parametrize("temperature", [1000, 1e-6, 1e-7, 1e-39, 1e-44, 1e-300])
def test_no_temperature_lets_a_forbidden_token_through(engine: Engine, temperature: float):
    sampled = set[int]()
    for seed in range(20):
        lay_out(engine, {70: 20.0, 71: 19.9})
        sampling = replace(EVERYTHING, temperature=temperature, seed=seed)
        sampled.add(sample(engine, sampling))
    assert sampled == ({70, 71} if temperature > 1 else {70})


@pytest.mark.parametrize("top_k", [2**31, 2**32 + 1, 10**30])
def test_a_top_k_above_the_vocabulary_is_all_of_it(engine: Engine, top_k: int):
    sampled = set[int]()
    for seed in range(30):
        lay_out(engine, {70: 1.0, 71: 1.0, 72: 1.0})
        sampled.add(sample(engine, replace(EVERYTHING, top_k=top_k, seed=seed)))
    assert sampled == {70, 71, 72}


@pytest.mark.parametrize("sampling", [GREEDY, replace(EVERYTHING, temperature=5)])
def test_no_bias_lets_through_what_is_forbidden(engine: Engine, sampling: Sampling):
    lay_out(engine, {70: 5.0, 71: 4.0})
    biases = {80: 1e6, 81: BIAS, 71: -1e6}
    sampler = engine.sampler(replace(sampling, logit_bias=biases, repeat_penalty=0.1))
    sampler.recall([80, 81] * 9)
    assert {sampler.sample(0) for _ in range(50)} == {70}


def test_no_bias_breaks_a_grammar(engine: Engine):
    vocabulary = engine.vocabulary
    matcher = Matcher.compile(build_tokenizer(vocabulary, ()), "start: /[ab]{20}/")
    letters = {vocabulary.encode(letter)[0] for letter in "cde"}
    biases = dict.fromkeys([*letters, *vocabulary.end], 1e6)
    sampler = engine.sampler(replace(EVERYTHING, logit_bias=biases))
    written = list[int]()
    chunk = vocabulary.encode("Hi")
    position = 0
    while not matcher.is_finished:
        (row,) = engine.decode([Chunk(0, chunk, position)])
        position += len(chunk)
        only = matcher.apply(row)
        chunk = [sampler.sample(0) if only is None else only]
        matcher.commit(chunk[0])
        written += chunk
    text = vocabulary.text(token for token in written if token not in vocabulary.end)
    assert len(text) == 20
    assert set(text) <= set(b"ab")


@pytest.mark.parametrize("sampling", [GREEDY, replace(EVERYTHING, temperature=0.01)])
def test_penalties(engine: Engine, sampling: Sampling):
    lay_out(engine, {70: 5.0, 71: 4.5, 72: 4.0})
    seen = [70, 70, 70, 71]
    assert sample(engine, sampling, seen) == 70
    assert sample(engine, replace(sampling, repeat_penalty=1.3), seen) == 72
    assert sample(engine, replace(sampling, repeat_penalty=1.3), seen[:3]) == 71
    assert sample(engine, replace(sampling, presence_penalty=0.4), seen) == 70
    assert sample(engine, replace(sampling, presence_penalty=0.4), seen[:3]) == 70
    assert sample(engine, replace(sampling, presence_penalty=0.6), seen[:3]) == 71
    assert sample(engine, replace(sampling, frequency_penalty=0.3), seen) == 71
    assert sample(engine, replace(sampling, frequency_penalty=2.0), seen) == 72
    assert sample(engine, replace(sampling, frequency_penalty=-2.0), [72]) == 72


def test_penalties_look_back_so_far(engine: Engine):
    lay_out(engine, {70: 5.0, 71: 4.5})
    penalty = replace(GREEDY, presence_penalty=2.0, penalty_last_n=3)
    seen = [70, 1, 1]
    assert sample(engine, penalty, seen) == 71
    assert sample(engine, penalty, [*seen, 1]) == 70
    assert sample(engine, replace(penalty, penalty_last_n=0), seen) == 70
    long = [70, *[1] * 200]
    assert sample(engine, replace(penalty, penalty_last_n=64), long) == 70
    assert sample(engine, replace(penalty, penalty_last_n=-1), long) == 71
    assert sample(engine, replace(penalty, penalty_last_n=10**12), long) == 71


def test_what_is_sampled_and_what_is_forced_is_penalised(engine: Engine):
    lay_out(engine, {70: 5.0, 71: 4.0, 72: 3.0})
    sampler = engine.sampler(replace(GREEDY, presence_penalty=2.0, frequency_penalty=2.0))
    assert [sampler.sample(0) for _ in range(3)] == [70, 71, 72]
    sampler.recall([])
    sampler.accept(70)
    assert [sampler.sample(0) for _ in range(2)] == [71, 72]
    sampler.recall([71])
    assert sampler.sample(0) == 70


def test_what_was_there_before_changes_no_random_numbers(engine: Engine):
    lay_out(engine, {70 + n: n / 100 for n in range(20)})
    sampling = replace(EVERYTHING, presence_penalty=1e-6)
    one, other = engine.sampler(sampling), engine.sampler(sampling)
    for _ in range(30):
        other.recall([70, 71])
        assert one.sample(0) == other.sample(0)


def test_a_token_that_there_is_not(engine: Engine):
    count = len(engine.vocabulary.tokens)
    engine.sampler(Sampling(logit_bias={count - 1: 1})).close()
    with pytest.raises(RequestError, match=f"there is no token {count}") as caught:
        engine.sampler(Sampling(logit_bias={0: 1, count: 1}))
    assert caught.value.where == f"/logit_bias/{count}"


VALUES = st.floats(-20, 20, width=16)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(st.integers(60, 90), VALUES, min_size=2),
    st.dictionaries(st.integers(55, 95), VALUES | st.just(-math.inf), max_size=5),
    st.lists(st.integers(55, 95), min_size=1, max_size=12),
    st.builds(
        dict,
        repeat_penalty=st.floats(0.25, 4, width=16),
        frequency_penalty=st.floats(-2, 2, width=16),
        presence_penalty=st.floats(-2, 2, width=16),
        penalty_last_n=st.integers(-1, 12),
    ),
)
def test_both_engines_weigh_alike(
    llama: LlamaEngine,
    logits: dict[int, float],
    biases: dict[int, float],
    before: list[int],
    penalties: dict[str, float],
):
    sampling = replace(GREEDY, logit_bias=biases, **penalties)
    row = lay_out(llama, logits)
    last = before[-(sampling.count_last(256) or len(before)) :]
    weighed = adjust_logits(row, sampling, last)
    if weighed.max() > -np.inf:
        assert weighed[sample(llama, sampling, before)] == pytest.approx(weighed.max(), abs=1e-3)


def test_greedy_draws_as_the_chain_of_llama_cpp(llama: LlamaEngine):
    llama.release(0)
    count = len(llama.vocabulary.tokens)
    random = np.random.default_rng(0)
    plain = llama.sampler(GREEDY)
    chain = llama.sampler(replace(GREEDY, logit_bias={count - 1: -np.inf}))
    assert isinstance(plain, RowSampler)
    assert isinstance(chain, ChainSampler)
    (row,) = llama.decode([Chunk(0, [65], 0)])
    for _ in range(50):
        row[:] = random.integers(-3, 3, count)  # many share the highest one
        row[random.random(count) < 0.9] = -np.inf
        row[-1] = -np.inf
        row[300] = -5
        assert plain.sample(0) == chain.sample(0)


def test_no_token_is_sampled_where_none_is_left(engine: Engine):
    lay_out(engine, {})
    with pytest.raises(GrammarError, match="every token is forbidden"):
        engine.sampler(GREEDY).sample(0)


def test_no_token_is_sampled_where_a_logit_is_no_number(engine: Engine):
    lay_out(engine, {70: 1, 71: np.nan})
    with pytest.raises(ModelError, match="the logit of token 71 is NaN"):
        engine.sampler(GREEDY).sample(0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([0.0, 0.5, 0.99, 0.9999]))
def test_candidates_are_the_most_likely_tokens(seed: int, count: int, forbidden: float):
    random = np.random.default_rng(seed)
    logits = random.integers(-200, 200, 8000).astype(np.float32)  # many are equal
    logits[random.random(len(logits)) < forbidden] = -np.inf
    candidates = find_candidates(logits, count)
    if candidates is None:
        assert (logits == -np.inf).all()
        return
    assert len(set(candidates.tolist())) == len(candidates)
    most = -np.sort(-logits)[:count]
    found = -np.sort(-logits[candidates])[:count]
    assert found.tolist() == most[: len(found)].tolist()
    assert len(found) == min(count, np.isfinite(logits).sum())


def test_a_few_candidates_are_sampled_from_as_all_tokens_are(llama: LlamaEngine):
    random = np.random.default_rng(0)
    sampling = Sampling(temperature=1.2, top_k=4, top_p=0.98, min_p=0.01, seed=7)
    few, all_tokens = llama.sampler(sampling), llama.sampler(sampling)
    assert isinstance(few, ChainSampler)
    assert isinstance(all_tokens, ChainSampler)
    all_tokens._top_k = 0
    sampled = set[int]()
    for number in range(200):
        row = lay_out(llama, {})
        row[:] = random.standard_normal(len(row)).astype(np.float32)
        row[random.random(len(row)) < (0, 0.5, 0.999)[number % 3]] = -np.inf
        row[300] = 0
        assert find_candidates(row, 4) is not None
        token = few.sample(0)
        assert token == all_tokens.sample(0)
        sampled.add(token)
    assert len(sampled) > 100
