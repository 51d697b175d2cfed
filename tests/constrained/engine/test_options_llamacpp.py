"""Options of the engine in a real llama.cpp: they change how it computes, not what."""

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest

from constrained.agent.loading import load as load_ready
from constrained.engine import llama_files, llamacpp
from constrained.engine.llama_params import ContextSize
from constrained.engine.llamacpp import LlamaEngine, load
from constrained.engine.protocol import Chunk, Sampling
from constrained.errors import ModelError
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.command_line import Run
from tests.templates import HERMES


def make(folder: Path, **sizes: int) -> Path:
    tokens = with_markers(load_small(), MARKERS)
    return write_model(folder / "model.gguf", tokens, HERMES, **sizes)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"))


def logits(path: Path, **options: Any) -> np.ndarray:
    """After a prompt and one more token."""
    with load(path, threads=1, context_length=512, **options) as engine:
        tokens = engine.vocabulary.encode("Many words. " * 40)[:150]
        engine.decode([Chunk(0, tokens[:-1], 0)])
        return engine.decode([Chunk(0, tokens[-1:], len(tokens) - 1)])[0].copy()


@pytest.fixture(scope="module")
def usual(path: Path) -> np.ndarray:
    return logits(path)


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"batch_size": 16, "ubatch_size": 8}, 0.3),
        ({"threads_batch": 2}, 0.3),
        ({"cache_type_k": "f32", "cache_type_v": "bf16"}, 0.3),
        ({"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, 0.6),
        ({"cache_type_v": "q5_1", "flash_attention": True}, 2),
        ({"kv_offload": False, "split_mode": "none", "gpu_layers": 0}, 0.3),
        ({"mmap": False}, 0.3),
        ({"mlock": True}, 0.3),
    ],
)
def test_the_same_is_computed(
    path: Path, usual: np.ndarray, options: dict[str, Any], tolerance: float
):
    np.testing.assert_allclose(logits(path, **options), usual, atol=tolerance)


def test_types_of_the_cache_take_the_memory_that_they_should(path: Path):
    sizes: dict[str, int] = {}
    for kind in ("f32", "f16", "q8_0", "q4_0"):
        options: Any = {"cache_type_k": kind, "cache_type_v": kind}
        with load(path, threads=1, context_length=512, **options) as engine:
            engine.decode([Chunk(0, [1] * 256, 0)])
            sizes[kind] = llama_cpp.llama_state_seq_get_size(engine._context, 0)
    assert sizes["f32"] / sizes["f16"] == pytest.approx(2, abs=0.2)
    assert sizes["q8_0"] / sizes["f16"] == pytest.approx(34 / 64, abs=0.1)
    assert sizes["q4_0"] / sizes["f16"] == pytest.approx(18 / 64, abs=0.1)


@pytest.mark.parametrize("flash_attention", [None, True, False])
def test_a_type_that_the_model_cannot_have(tmp_path: Path, flash_attention: bool | None):
    path = make(tmp_path, head_dim=48)
    with pytest.raises(ModelError, match=r"does not divide.*\(cache_type_k, -ctk; cache_type_v"):
        load(path, threads=1, cache_type_k="q8_0", flash_attention=flash_attention)
    load(path, threads=1).close()


@contextmanager
def room(size: int) -> Iterator[None]:
    """This process can take at most so many bytes more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    usual = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, usual)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells and limits memory")
def test_a_context_that_there_is_no_memory_for(tmp_path: Path):
    path = make(tmp_path, context_length=2**30)
    message = r"no context of 1073741824 tokens for 1 sequences: .*\. Use a shorter context \(con"
    with room(2**28), pytest.raises(ModelError, match=message):
        load(path, threads=1, context_length=0)
    load(path, threads=1, context_length=512).close()


def test_more_positions_than_llama_cpp_can_count_are_shared(path: Path, monkeypatch: Any):
    asked: list[tuple[int, bool]] = []

    def refuse(model: Any, params: Any) -> None:
        asked.append((params.n_ctx, params.kv_unified))

    monkeypatch.setattr(llama_files.llama_cpp, "llama_init_from_model", refuse)
    params = llama_cpp.llama_context_default_params()
    model: Any = None
    size = ContextSize(length=2**31, cells=2**32)
    context, _ = llama_files.create_context(model, params, size, sequences=2)
    assert context is None
    assert asked == [(2**31, True)]


def test_notices_reach_the_model(path: Path, monkeypatch: pytest.MonkeyPatch, run: Run):
    create = llamacpp.llama_cpp.llama_init_from_model
    monkeypatch.setattr(
        llamacpp.llama_cpp,
        "llama_init_from_model",
        lambda model, params: create(model, params) if params.kv_unified else None,
    )
    with load_ready(path, threads=1, sequences=2, context_length=512) as model:
        assert model.notices[-1].startswith("memory is short: all sequences share one context of 5")
    monkeypatch.undo()
    with load_ready(path, threads=1, sequences=2, context_length=512) as model:
        assert not [notice for notice in model.notices if "memory" in notice]
    if not llama_cpp.llama_supports_gpu_offload():
        words = f"call hi -m {path} -c 512 -n 1 -ngl 5".split()
        assert "no GPU support" in run(*words)[2]
        assert "no GPU support" not in run(*words[:-1], "all")[2]


def test_a_model_that_cannot_be_locked_in_memory_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    line = b"warning: failed to mlock 512-byte buffer (after previously locking 0 bytes): no\nTry"
    read = llama_files.load_model

    def warn(*arguments: Any) -> Any:
        model = read(*arguments)
        llama_files._log(llama_files.LOG_WARNING, line, None)
        return model

    monkeypatch.setattr(llama_files, "load_model", warn)
    with load(path, threads=1, mlock=True) as engine:
        (notice,) = engine.notices
        assert notice.startswith("the model may be swapped out: failed to mlock 512-byte")
        assert notice.endswith(": no")


class Watched:
    """The engine, which tells how many tokens each decode has."""

    def __init__(self, engine: LlamaEngine):
        self._engine = engine
        self.sizes: list[int] = []

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self.sizes.append(sum(len(chunk.tokens) for chunk in chunks))
        return self._engine.decode(chunks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@pytest.mark.parametrize("size", [32, 1024])
def test_a_decode_has_as_many_tokens_as_the_batch(
    path: Path, size: int, monkeypatch: pytest.MonkeyPatch
):
    watched: list[Watched] = []
    monkeypatch.setattr(
        llamacpp, "load", lambda *a, **o: watched.append(Watched(load(*a, **o))) or watched[0]
    )
    with load_ready(path, threads=1, batch_size=size) as model:
        model.call("Many words. " * 200, max_tokens=1, sampling=Sampling(temperature=0))
    assert max(watched[0].sizes) == min(size, sum(watched[0].sizes))
    assert sum(watched[0].sizes) > 600
