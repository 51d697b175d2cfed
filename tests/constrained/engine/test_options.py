"""Options of the engine: what they may be, what llama.cpp is told, and what has no effect."""

import platform
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import llama_cpp
import pytest

from constrained.agent.loading import load
from constrained.cli.declared import list_options
from constrained.engine import llama_files, llama_params
from constrained.engine.llama_params import context_params, describe_unused, model_params
from constrained.engine.options import (
    CacheType,
    EngineOptions,
    LoadOptions,
    SplitMode,
    read_options,
)
from constrained.errors import RequestError
from tests.command_line import Run


def test_options_by_name_are_those_that_there_are():
    assert get_type_hints(LoadOptions) == get_type_hints(EngineOptions)
    assert [*list_options(EngineOptions)] == [field.name for field in fields(EngineOptions)]
    with pytest.raises(TypeError, match=r"unknown option 'n_ctx'; known: context_length, .*mlock"):
        read_options({"n_ctx": 5})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sequences": 0}, "sequences is 0, must be 1 to"),
        ({"context_length": 2**32}, "context_length is 4294967296, must be 0 to"),
        ({"context_length": "9"}, "context_length is .9., must be 0 to"),
        ({"threads": 513}, "threads is 513, must be 0 to 512"),
        ({"threads_batch": -1}, "threads_batch is -1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 3, "sequences": 4}, "batch_size is 3, must be at least the number of seq"),
        ({"ubatch_size": True}, "ubatch_size is True"),
        ({"gpu_layers": "all"}, "gpu_layers is 'all', must be -1 to"),
        ({"gpu_layers": -2}, "gpu_layers is -2"),
        ({"main_gpu": 1.0}, r"main_gpu is 1\.0"),
        ({"split_mode": "rows"}, "split_mode is 'rows', must be none or layer or row"),
        ({"cache_type_k": "q6_k"}, "cache_type_k is 'q6_k', must be f32 or .* or q5_1"),
        ({"cache_type_v": []}, r"cache_type_v is \[\]"),
        ({"flash_attention": "on"}, "flash_attention is 'on', must be True, False or None"),
        ({"mmap": 1}, "mmap is 1, must be True or False"),
        ({"tensor_split": (0, 0)}, r"tensor_split is \(0, 0\), must be numbers, not all"),
        ({"tensor_split": (1, -1, 2)}, "tensor_split"),
        ({"tensor_split": (float("nan"),)}, "tensor_split"),
        ({"tensor_split": "3,1"}, "tensor_split is '3,1'"),
        ({"cache_type_v": "q4_0", "flash_attention": False}, "values in q4_0 need flash attention"),
    ],
)
def test_bad_options(given: dict[str, Any], message: str):
    with pytest.raises(RequestError, match=message) as caught:
        load("no such file", **given)
    assert caught.value.where is not None
    assert caught.value.where[1:] in given


def test_what_llama_cpp_is_told():
    options = EngineOptions(
        threads=3,
        threads_batch=5,
        batch_size=64,
        ubatch_size=32,
        flash_attention=True,
        cache_type_k="bf16",
        cache_type_v="iq4_nl",
        gpu_layers=7,
        split_mode="row",
        main_gpu=1,
        tensor_split=[3, 1],
        kv_offload=False,
    )
    context = context_params(options)
    model = model_params(options)
    assert (context.n_threads, context.n_threads_batch) == (3, 5)
    assert (context.n_batch, context.n_ubatch) == (64, 32)
    assert (context.flash_attn_type, context.offload_kqv) == (1, False)
    assert (context.type_k, context.type_v) == (30, llama_cpp.GGML_TYPE_IQ4_NL)
    assert (model.n_gpu_layers, model.main_gpu) == (7, 1)
    assert model.split_mode == llama_cpp.LLAMA_SPLIT_MODE_ROW
    parts = model.tensor_split[: llama_cpp.llama_max_devices()]
    assert (parts[:2], set(parts[2:])) == ([3, 1], {0})


def test_what_llama_cpp_is_told_if_nothing_is_said():
    context = context_params(EngineOptions(threads=3))
    model = model_params(EngineOptions())
    usual = llama_cpp.llama_context_default_params()
    names = ("flash_attn_type", "type_k", "type_v", "offload_kqv", "n_ubatch")
    assert [getattr(context, n) for n in names] == [getattr(usual, n) for n in names]
    assert (context.n_threads, context.n_threads_batch) == (3, 3)
    usual = llama_cpp.llama_model_default_params()
    names = ("split_mode", "load_mode", "main_gpu")
    assert [getattr(model, n) for n in names] == [getattr(usual, n) for n in names]
    assert not model.tensor_split


@pytest.mark.parametrize(
    ("mmap", "mlock", "mode"),
    [
        (True, False, "AUTO"),
        (True, True, "MMAP_MLOCK"),
        (False, True, "MLOCK"),
        (False, False, "NONE"),
    ],
)
def test_how_the_file_is_read(mmap: bool, mlock: bool, mode: str):
    params = model_params(EngineOptions(mmap=mmap, mlock=mlock))
    assert params.load_mode == getattr(llama_cpp, f"LLAMA_LOAD_MODE_{mode}")


def test_names_of_llama_cpp():
    assert {*llama_params.CACHE_TYPES} == {*get_args(CacheType)}
    assert {*llama_params.SPLIT_MODES} == {*get_args(SplitMode)}
    for name, number in llama_params.CACHE_TYPES.items():
        constant = f"GGML_TYPE_{name.upper()}"
        assert getattr(llama_cpp, constant, number) == number
    for name, number in llama_params.SPLIT_MODES.items():
        assert getattr(llama_cpp, f"LLAMA_SPLIT_MODE_{name.upper()}") == number


def test_more_parts_than_devices():
    with pytest.raises(RequestError, match=r"tensor_split has 500 parts, llama\.cpp supports"):
        model_params(EngineOptions(tensor_split=(1,) * 500))


@pytest.mark.skipif(llama_cpp.llama_supports_gpu_offload(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, None),
        ({"gpu_layers": -1}, None),
        ({"gpu_layers": 0}, None),
        ({"gpu_layers": 20}, "gpu_layers (-ngl)"),
        ({"split_mode": "none", "main_gpu": 1}, "split_mode (-sm), main_gpu (-mg)"),
        ({"tensor_split": (3, 1), "gpu_layers": 0}, "tensor_split (-ts)"),
    ],
)
def test_what_needs_a_gpu_is_not_passed_over(given: Any, named: str | None):
    notices = list(describe_unused(EngineOptions(**given)))
    assert len(notices) == (named is not None)
    if named:
        assert "no GPU support" in notices[0]
        assert notices[0].endswith(f"without effect: {named}")


@pytest.mark.parametrize(
    ("lines", "memory", "hint"),
    [
        (
            [
                "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 5000.00 MiB on device 0: "
                "cudaMalloc failed: out of memory",
                "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
            ],
            llama_files.MODEL_MEMORY,
            "fewer layers onto the GPU (gpu_layers, -ngl)",
        ),
        (
            ["llama_init_from_model: failed to initialize the context: std::bad_alloc"],
            llama_files.CONTEXT_MEMORY,
            "shorter context (context_length, -c)",
        ),
        (
            ["llama_init_from_model: quantized V cache requires flash_attn to be enabled"],
            llama_files.CONTEXT_MEMORY,
            "Leave flash attention on (-fa)",
        ),
        (
            ["llama_prepare_model_devices: invalid value for main_gpu: 3 (available devices: 1)"],
            llama_files.MODEL_MEMORY,
            "Name a GPU that exists (main_gpu, -mg)",
        ),
        (["something: else"], llama_files.MODEL_MEMORY, None),
    ],
)
def test_hints(lines: list[str], memory: str, hint: str | None):
    llama_files.errors.clear()
    for line in lines:
        llama_files._log(llama_files.LOG_ERROR, line.encode(), None)
    failure = llama_files.make_failure("it failed", memory)
    assert failure.message == f"it failed: {lines[0].split(': ', 1)[1]}"
    assert (failure.hint or "").startswith(hint or "") if hint is None else hint in str(failure)
    assert (failure.hint is None) == (hint is None)


def test_what_the_command_line_says(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    words = "call hi -m none.gguf -np 4 -b 2".split()
    assert "batch_size is 2, must be at least the number of sequences, 4" in run(*words)[2]
    words = "call hi -m none.gguf -ctv q8_0 -fa off".split()
    assert "values in q8_0 need flash attention" in run(*words)[2]
    words = "call hi -m none.gguf -ts 3,x".split()
    assert "--tensor-split is '3,x', not numbers with commas" in run(*words)[2]
    words = "call hi -m none.gguf -ngl most".split()
    assert "--gpu-layers is 'most', not a number, auto or all" in run(*words)[2]
    monkeypatch.setenv("LLAMA_ARG_BATCH", "2")
    monkeypatch.setenv("LLAMA_ARG_N_PARALLEL", "3")
    assert "at least the number of sequences, 3" in run(*"call hi -m none.gguf".split())[2]
    assert "none.gguf cannot be read" in run(*"call hi -m none.gguf -np 2".split())[2]


def test_large_blocks_are_returned_where_glibc_is() -> None:
    """In a process of its own: the setting stays."""
    command = "from constrained.engine.host import bound_heap as f; print(f(), f())"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    is_glibc = platform.libc_ver()[0] == "glibc"
    assert done.stdout.split() == [str(is_glibc)] * 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it asks glibc")
def test_free_memory_is_told_and_returned() -> None:
    """In a process of its own: 64 MB in small pieces, of which every hundredth stays.

    The last one stays, too: what is free at the top of the heap, glibc returns by itself.
    """
    command = """if True:
        import time
        from pathlib import Path
        from constrained.engine.host import bound_heap, keep_returning, measure_heap

        def measure():
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

        bound_heap()
        pieces = [b"x" * 64_000 for _ in range(1_000)]
        used = measure_heap().used
        pieces[:] = pieces[99::100]
        heap = measure_heap()
        assert heap.used < used - 60_000_000, (heap, used)
        assert heap.free > 60_000_000, heap
        before = measure()
        keep_returning(0.01)
        end = time.monotonic() + 30
        while measure() > before - 50_000_000 and time.monotonic() < end:
            time.sleep(0.01)
        print(before - measure() > 50_000_000)
    """
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=False
    )
    assert done.stdout == "True\n", done.stderr
