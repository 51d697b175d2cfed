"""How long a context is where nobody says so, and what it takes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.engine import llama_files, llama_params, llamacpp
from constrained.engine.llama_params import (
    DEFAULT_CONTEXT_LENGTH,
    DEFAULT_MEMORY_SHARE,
    MAX_MEMORY,
    MAX_SCORES,
    MIN_CONTEXT_LENGTH,
    ContextNeeds,
    ContextSize,
    choose_context,
    describe_context,
    spares_flash_attention,
)
from constrained.engine.llamacpp import load
from constrained.engine.options import EngineOptions
from examples.random_model import MARKERS, load_small, with_markers, write_model

GIB = 1 << 30
# An 8B model with 8 heads of 128 numbers for keys in 32 layers, in 5 GiB.
LARGE = ContextNeeds(
    trained=131_072, sequences=1, weights=5 * GIB, cell=131_072, graph=2048, memory=None
)
needs = st.builds(
    ContextNeeds,
    trained=st.integers(1, 2**21),
    sequences=st.integers(1, 256),
    weights=st.integers(0, 2**38),
    cell=st.integers(0, 2**21),
    graph=st.integers(0, 2**20),
    memory=st.none() | st.integers(0, 2**40),
)


@given(needs)
def test_what_nobody_asks_for_fits(needs: ContextNeeds):
    size = choose_context(None, needs)
    least = min(needs.trained, MIN_CONTEXT_LENGTH)
    assert least <= size.length <= min(needs.trained, DEFAULT_CONTEXT_LENGTH)
    assert size.length <= size.cells <= needs.sequences * size.length
    assert size.cells <= max(DEFAULT_CONTEXT_LENGTH, least * needs.sequences)
    assert size.is_shared == (size.cells < needs.sequences * size.length)
    if needs.memory is not None and size.cells > least:
        assert needs.measure(size) <= DEFAULT_MEMORY_SHARE * needs.memory


@given(needs)
def test_twice_as_much_would_not_fit(needs: ContextNeeds):
    size = choose_context(None, needs)
    least = min(needs.trained, MIN_CONTEXT_LENGTH)
    most = min(needs.trained, DEFAULT_CONTEXT_LENGTH)
    ceiling = min(most * needs.sequences, max(DEFAULT_CONTEXT_LENGTH, least * needs.sequences))
    if size.cells < ceiling and needs.memory is not None:
        assert size.cells == least or size.cells.bit_count() == 1
        longer = ContextSize(size.length, 2 * size.cells, is_shared=True)
        assert needs.measure(longer) > DEFAULT_MEMORY_SHARE * needs.memory


@given(needs, st.integers(0, 2**22))
def test_what_is_asked_for_is_given(needs: ContextNeeds, asked: int):
    size = choose_context(asked, needs)
    assert size.length == min(asked or needs.trained, needs.trained)
    if needs.sequences == 1:
        assert not size.is_shared
    elif not size.is_shared and needs.memory is not None:
        assert needs.measure(size) <= MAX_MEMORY * needs.memory
    assert size.cells == size.length * (1 if size.is_shared else needs.sequences)


@given(needs, st.none() | st.integers(0, 2**22))
def test_whatever_is_less_than_expected_is_said(needs: ContextNeeds, asked: int | None):
    size = choose_context(asked, needs)
    notes = list(describe_context(asked, size, needs))
    wanted = asked or needs.trained
    assert any("trained on" in note for note in notes) == (wanted != size.length)
    assert any("share one context" in note for note in notes) == size.is_shared


@pytest.mark.parametrize(
    ("sequences", "memory", "expected"),
    [
        (1, None, ContextSize(65_536, 65_536)),
        (8, None, ContextSize(65_536, 65_536, is_shared=True)),
        (32, None, ContextSize(65_536, 131_072, is_shared=True)),
        (1, 64 * GIB, ContextSize(65_536, 65_536)),
        (1, 16 * GIB, ContextSize(16_384, 16_384)),
        (8, 16 * GIB, ContextSize(16_384, 16_384, is_shared=True)),
        (8, 2 * GIB, ContextSize(4096, 4096, is_shared=True)),
    ],
)
def test_an_agent_with_a_large_model(sequences: int, memory: int | None, expected: ContextSize):
    assert choose_context(None, replace(LARGE, sequences=sequences, memory=memory)) == expected


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("model") / "model.gguf"
    tokens = with_markers(load_small(), MARKERS)
    return write_model(file, tokens, None, n_layer=1, context_length=12_000)


def test_the_default_is_what_the_model_was_trained_on(path: Path):
    with load(path, threads=1) as engine:
        assert engine.context_length == 12_000
        assert not engine.notices


def test_the_default_is_less_where_memory_is_short(path: Path, monkeypatch: pytest.MonkeyPatch):
    if llama_params.offloads(-1):
        pytest.skip("the memory of the GPU counts")
    monkeypatch.setattr(llamacpp, "available_memory", lambda: 1000)
    with load(path, threads=1, sequences=2) as engine:
        assert engine.context_length == MIN_CONTEXT_LENGTH
        assert any("trained on 12000" in notice for notice in engine.notices)
        assert any("share one context of 4096" in notice for notice in engine.notices)


def test_more_than_the_model_was_trained_on_is_lowered_and_said(path: Path):
    with load(path, threads=1, context_length=20_000) as engine:
        assert engine.context_length == 12_000
        assert any("20000 is lowered" in notice for notice in engine.notices)


PLAIN = replace(LARGE, graph=2048 * 33, memory=32 * GIB)  # without flash attention, 32 heads


@pytest.mark.parametrize(
    ("options", "needs", "length", "is_offloaded", "spares"),
    [
        (EngineOptions(), PLAIN, 4096, False, True),
        (EngineOptions(), replace(PLAIN, memory=None), 4096, False, True),
        (EngineOptions(cache_type_k="q8_0"), PLAIN, 4096, False, False),
        (EngineOptions(cache_type_v="q8_0"), PLAIN, 4096, False, False),
        (EngineOptions(flash_attention=True), PLAIN, 4096, False, False),
        (EngineOptions(), PLAIN, 4096, True, False),
        (EngineOptions(), PLAIN, MAX_SCORES // PLAIN.graph, False, True),
        (EngineOptions(), PLAIN, MAX_SCORES // PLAIN.graph + 1, False, False),
        (EngineOptions(), replace(PLAIN, memory=8 * GIB), 4096, False, False),
    ],
)
def test_flash_attention_is_spared_on_the_cpu_where_its_scores_fit(
    options: EngineOptions, needs: ContextNeeds, length: int, is_offloaded: bool, spares: bool
):
    size = ContextSize(length, length)
    assert spares_flash_attention(options, needs, size, is_offloaded=is_offloaded) == spares


def test_a_model_on_the_cpu_computes_as_without_flash_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    types: list[int] = []
    create = llama_files.create_context

    def note(*arguments: Any, **named: Any) -> Any:
        types.append(arguments[1].flash_attn_type)
        return create(*arguments, **named)

    monkeypatch.setattr(llama_files, "create_context", note)
    path = write_model(tmp_path / "m.gguf", with_markers(load_small(), MARKERS), None)
    for flash_attention in (None, True, False):
        load(
            path, threads=1, context_length=256, gpu_layers=0, flash_attention=flash_attention
        ).close()
    assert types == [0, 1, 0]
