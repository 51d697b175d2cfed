from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constrained.engine import host
from constrained.engine.batch import batches
from constrained.engine.numpy_sampler import sample_token
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.engine.vocabulary.vocabulary import build_tokenizer, byte_vocabulary
from constrained.errors import GrammarError, RequestError
from constrained.mask.matcher import Matcher

MARKERS = ["<think>", "<tool_call>"]
BYTES = byte_vocabulary(MARKERS)


def generate(engine: ScriptedEngine, sequence: int, prompt: list[int], count: int) -> list[int]:
    sampler = engine.sampler(Sampling(temperature=0))
    tokens: list[int] = []
    chunk = prompt
    while len(tokens) < count:
        engine.decode([Chunk(sequence, chunk, len(prompt) * bool(tokens) + len(tokens[:-1]))])
        chunk = [sampler.sample(0)]
        tokens += chunk
    return tokens


def test_batches_keep_the_last_tokens_for_the_last():
    chunks = [Chunk(5, range(10, 17), 3), Chunk(2, [9], 0), Chunk(7, range(20, 26), 0)]
    (one,) = batches(chunks, 14)
    assert one[0].tolist() == [*range(10, 17), 9, *range(20, 26)]
    assert one[1].tolist() == [*range(3, 10), 0, *range(6)]
    assert one[2].tolist() == [5] * 7 + [2] + [7] * 6
    assert np.flatnonzero(one[3]).tolist() == [6, 7, 13]
    for capacity in range(3, 14):
        parts = batches(chunks, capacity)
        assert all(0 < part.shape[1] <= capacity for part in parts)
        assert not any(part[3].any() for part in parts[:-1])
        assert parts[-1][0][parts[-1][3] == 1].tolist() == [16, 9, 25]
        joined = np.concatenate(parts, axis=1)
        for chunk in chunks:
            own = joined[:, joined[2] == chunk.sequence]
            assert own[0].tolist() == list(chunk.tokens)
            assert (np.diff(own[1]) == 1).all()


def test_no_token_left_to_draw():
    with pytest.raises(GrammarError, match="forbidden"):
        sample_token(np.full(4, -np.inf, np.float32), Sampling(), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("inf")),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_p", 1.1),
        ("min_p", -1),
        ("seed", -1),
        ("seed", 2**32 - 1),
    ],
)
def test_sampling_out_of_range(field: str, value: Any):
    with pytest.raises(RequestError, match=f"{field} is .* must be") as caught:
        Sampling(**{field: value})
    assert caught.value.where == f"/{field}"


def test_scripted_text():
    script = 'Hi <tool_call>{"a": 1}'
    engine = ScriptedEngine(BYTES, scripted_logits(BYTES, script))
    tokens = generate(engine, 2, BYTES.encode("prompt"), len(BYTES.encode_special(script)) + 1)
    assert tokens == [*BYTES.encode_special(script), BYTES.end[0]]


def test_scripted_text_in_the_tokens_that_the_mask_permits():
    engine = ScriptedEngine(BYTES, scripted_logits(BYTES, "a<think>b", start=6))
    matcher = Matcher.compile(build_tokenizer(BYTES, MARKERS), "start: /[a-z<>]*/")
    engine.decode([Chunk(0, BYTES.encode("pro"), 0)])
    engine.decode([Chunk(0, BYTES.encode("mp"), 3)])
    engine_tokens = BYTES.encode("t")
    tokens: list[int] = []
    sampler = engine.sampler(Sampling(seed=0))
    while True:
        (logits,) = engine.decode([Chunk(0, engine_tokens, 5 + len(tokens))])
        matcher.apply(logits)
        engine_tokens = [sampler.sample(0)]
        matcher.commit(engine_tokens[0])
        if matcher.ends(engine_tokens[0]):
            break
        tokens += engine_tokens
    assert tokens == list(b"a<think>b")


def test_scripted_tokens_and_a_way_off_the_script():
    script = BYTES.encode("abc")
    engine = ScriptedEngine(BYTES, scripted_logits(BYTES, script))
    assert generate(engine, 0, [1], 4) == [*script, BYTES.end[0]]
    (logits,) = engine.decode([Chunk(1, [1], 0)])
    assert logits.argmax() == ord("a")
    (logits,) = engine.decode([Chunk(1, [ord("z")], 1)])
    assert logits.argmax() == BYTES.end[0]


def test_logits_of_the_wrong_shape():
    engine = ScriptedEngine(BYTES, lambda sequence, tokens: np.zeros(3))
    with pytest.raises(ValueError, match="shape"):
        engine.decode([Chunk(0, [1], 0)])


def test_physical_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        (tmp_path / str(cpu)).write_text(siblings)
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    monkeypatch.setattr(host, "CPU", f"{tmp_path}/{{}}")
    assert host.physical_cores() == 2
    monkeypatch.setattr(host, "CPU", f"{tmp_path}/none/{{}}")
    assert host.physical_cores() == 3
    monkeypatch.delattr(host.os, "sched_getaffinity")
    assert host.physical_cores() >= 1
