"""Files that llama.cpp loads or does not, and what only its engine has."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from constrained.engine import llamacpp
from constrained.engine.llamacpp import LlamaEngine, load
from constrained.engine.protocol import Chunk, DecodeSize, Sampling
from constrained.engine.vocabulary.vocabulary import build_tokenizer
from constrained.errors import ContextError, ModelError
from constrained.mask.matcher import Matcher
from examples.random_model import MARKERS, load_small, with_markers, write_model


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokens = with_markers(load_small(), MARKERS)
    file = tmp_path_factory.mktemp("model") / "model.gguf"
    return write_model(file, tokens, "{{ messages }}", context_length=1024)


@pytest.fixture
def llama(path: Path) -> Iterator[LlamaEngine]:
    with load(path, sequences=3, context_length=512) as engine:
        yield engine


def test_more_than_a_batch(llama: LlamaEngine):
    long = (llama.vocabulary.encode("Many words. ") * 100)[:300]
    (expected,) = llama.decode([Chunk(1, long, 0)])
    expected = expected.copy()
    llama.release(1)
    llama._batch.capacity = 64
    rows = llama.decode([Chunk(0, long, 0), Chunk(1, long[:7], 0)])
    np.testing.assert_allclose(rows[0], expected, atol=0.3)
    assert llama.sampler(Sampling(temperature=0)).sample(1) == rows[1].argmax()


def test_the_gap_between_two_sequences_is_filled_and_emptied_again(llama: LlamaEngine) -> None:
    words = llama.vocabulary.encode("one, two, three, four")
    chunks = [Chunk(number, words, 0) for number in range(3)]
    expected = llama.decode(chunks)[1].argmax()
    llama.rollback(1, len(words) - 1)
    llama.splits_uneven = True
    ends = [Chunk(0, words[:1], len(words)), Chunk(2, words[:1], len(words))]
    with patch.object(llama, "_decode_tables", wraps=llama._decode_tables) as decode:
        rows = llama.decode(ends)
    ((tables, _), _) = decode.call_args
    assert [table[2].tolist() for table in tables] == [[0, 1, 2]]
    assert len(rows) == 2
    assert llama.last_decode == DecodeSize(passes=1, tokens=3)
    np.testing.assert_allclose(rows[0], rows[1], atol=0.3)
    assert llama.decode([Chunk(1, words[-1:], len(words) - 1)])[0].argmax() == expected
    llama._batch.capacity = 2  # no room for a filler
    llama.decode([Chunk(0, words[:1], len(words) + 1), Chunk(2, words[:1], len(words) + 1)])
    assert llama.last_decode == DecodeSize(passes=2, tokens=2)


def test_every_end_token_is_allowed_at_the_end(llama: LlamaEngine):
    matcher = Matcher.compile(build_tokenizer(llama.vocabulary, MARKERS), 'start: "a"')
    matcher.commit(llama.vocabulary.encode("a")[0])
    assert len(llama.vocabulary.end) == 2
    assert set(np.flatnonzero(matcher.mask())) == set(llama.vocabulary.end)
    for token in llama.vocabulary.end:
        matcher.fork().commit(token)


def test_what_the_file_says(llama: LlamaEngine):
    header = llama.header
    assert header.chat_templates == {"": "{{ messages }}"}
    assert header.metadata["general.architecture"] == "qwen3"
    assert header.metadata["general.name"] == "random weights"
    assert "tokenizer.ggml.tokens" not in header.metadata  # llama.cpp hands out no arrays
    assert header.eos_text == "<|im_end|>"
    assert header.bos_text in ("", "<|endoftext|>")


def test_options_of_load(path: Path):
    parts: list[float] = []
    options: dict[str, Any] = {"threads": 1, "gpu_layers": 0, "flash_attention": False}
    with load(path, context_length=0, progress=parts.append, **options) as engine:
        assert engine.context_length == 1024
        assert engine.max_sequences == 1
        assert parts[-1] == 1
    with load(path, context_length=10**6) as engine:
        assert engine.context_length == 1024
    with pytest.raises(ValueError, match="sequences is 0"):
        load(path, sequences=0)
    with pytest.raises(ValueError, match="context_length is -1"):
        load(path, context_length=-1)
    with pytest.raises(ModelError, match="n_seq_max"):
        load(path, sequences=300)


def test_a_shared_context_can_be_full(path: Path, monkeypatch: pytest.MonkeyPatch):
    create = llamacpp.llama_cpp.llama_init_from_model
    monkeypatch.setattr(
        llamacpp.llama_cpp,
        "llama_init_from_model",
        lambda model, params: create(model, params) if params.kv_unified else None,
    )
    with load(path, sequences=3, context_length=512) as engine:
        assert engine.context_length == 512
        engine.decode([Chunk(0, [1] * 400, 0)])
        with pytest.raises(ContextError, match="share is full"):
            engine.decode([Chunk(1, [1] * 400, 0)])
        engine.decode([Chunk(1, [1] * 100, 0)])


def test_sequences_share_a_context_where_memory_is_short(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    with load(path, sequences=3, context_length=512) as engine:
        assert not engine.notices
    monkeypatch.setattr(llamacpp, "available_memory", lambda: 1000)
    with load(path, sequences=3, context_length=512) as engine:
        assert any("all sequences share one context" in notice for notice in engine.notices)
    with load(path, sequences=1, context_length=512) as engine:
        assert not engine.notices


def test_progress_that_raises_ends_the_loading(path: Path):
    def stop(part: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(path, progress=stop)


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "is not a GGUF file. Convert"),
        (lambda data: b"PK\3\4" + data, "is not a GGUF file. Convert"),
        (lambda data: data[:4], "failed to read header. Download the file again"),
        (lambda data: data[:5000], "cannot be loaded: .*. Download the file again"),
        (lambda data: data[: len(data) // 2], "corrupted or incomplete. Download the file again"),
        (lambda data: b"GGUF" + b"\xee" * 5000, "GGUF file is version .* newer llama-cpp-python"),
        (lambda data: data.replace(b"qwen3", b"qwenX", 1), "architecture: 'qwenX'.*A newer"),
    ],
)
def test_damaged_files(path: Path, tmp_path: Path, damage: Damage, message: str):
    file = tmp_path / "damaged.gguf"
    file.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelError, match=message):
        load(file)


def test_missing_files(tmp_path: Path):
    with pytest.raises(ModelError, match=r"none\.gguf cannot be read: No such file"):
        load(tmp_path / "none.gguf")
    with pytest.raises(ModelError, match="cannot be read: Is a directory"):
        load(str(tmp_path))
