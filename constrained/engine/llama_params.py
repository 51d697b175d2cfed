"""Options as llama.cpp takes them, and those that have no effect."""

import ctypes
from collections.abc import Iterator
from typing import Any

import llama_cpp

from constrained.engine.host import physical_cores
from constrained.engine.options import EngineOptions
from constrained.errors import RequestError

# ggml.h and llama.h; llama-cpp-python does not have all of these names.
CACHE_TYPES = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "iq4_nl": 20,
    "bf16": 30,
}
SPLIT_MODES = {"none": 0, "layer": 1, "row": 2}
LOAD_MODES = {(True, False): -1, (False, False): 0, (False, True): 2, (True, True): 3}
"""By `mmap` and `mlock`; -1 maps the file unless a device cannot read what is mapped."""
NEED_GPU = {"gpu_layers": "-ngl", "split_mode": "-sm", "main_gpu": "-mg", "tensor_split": "-ts"}


def model_params(options: EngineOptions) -> Any:
    """The parameters of a model.

    Raises:
        RequestError: the model is split into more parts than there can be devices.
    """
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = options.gpu_layers
    params.split_mode = SPLIT_MODES[options.split_mode]
    params.main_gpu = options.main_gpu
    params.load_mode = LOAD_MODES[options.mmap, options.mlock]
    most = llama_cpp.llama_max_devices()
    if len(options.tensor_split) > most:
        count = len(options.tensor_split)
        message = f"tensor_split has {count} parts, llama.cpp can have {most} devices"
        raise RequestError(message, where="/tensor_split")
    if options.tensor_split:
        params.tensor_split = (ctypes.c_float * most)(*options.tensor_split)
    # llama.cpp's code for AMX crashes on quantised weights where an older GCC (11, 12) compiled it
    # (ggml-org/llama.cpp#20824), which nobody can ask. Elsewhere the default stays: it is faster.
    params.use_extra_bufts = b"AMX_INT8 = 1" not in llama_cpp.llama_print_system_info()
    return params


def context_params(options: EngineOptions) -> Any:
    """The parameters of a context, but for its length and its sequences."""
    params = llama_cpp.llama_context_default_params()
    params.n_threads = options.threads or physical_cores()
    params.n_threads_batch = options.threads_batch or params.n_threads
    params.n_batch = options.batch_size
    params.n_ubatch = options.ubatch_size
    params.type_k = CACHE_TYPES[options.cache_type_k]
    params.type_v = CACHE_TYPES[options.cache_type_v]
    params.offload_kqv = options.kv_offload
    if options.flash_attention is not None:
        params.flash_attn_type = int(options.flash_attention)
    return params


def offloads(gpu_layers: int) -> bool:
    """True if a GPU computes some of the layers, where so many (-1: all) are wanted there."""
    return gpu_layers != 0 and llama_cpp.llama_supports_gpu_offload()


def describe_unused(options: EngineOptions) -> Iterator[str]:
    """Options of a GPU that are without effect, because llama.cpp has none; for the user."""
    default = EngineOptions()
    asked = [name for name in NEED_GPU if getattr(options, name) != getattr(default, name)]
    if options.gpu_layers <= 0 and "gpu_layers" in asked:
        asked.remove("gpu_layers")
    if asked and not llama_cpp.llama_supports_gpu_offload():
        names = ", ".join(f"{name} ({NEED_GPU[name]})" for name in asked)
        build = "this build of llama-cpp-python has no GPU support, or there is no GPU"
        yield f"{build}; without effect: {names}"
