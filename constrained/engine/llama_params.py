"""Translates the options of a model into parameters of llama.cpp, and chooses the context size."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import llama_cpp

from constrained.engine.host import physical_cores
from constrained.engine.options import PLAIN_TYPES, EngineOptions
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
"""By `mmap` and `mlock`; -1 maps the file unless a device cannot read mapped memory."""
BITS = {"f32": 32, "q4_0": 5, "q4_1": 5, "q5_0": 6, "q5_1": 6, "q8_0": 9, "iq4_nl": 5}
"""Bits of a number in a context, scales included, rounded up; 16 for the others."""
MAX_MEMORY = 0.8  # the part of the free memory for contexts of separate sequences
DEFAULT_MEMORY_SHARE = 0.5  # the part of the free memory for a context of no requested length
DEFAULT_CONTEXT_LENGTH = 65_536
"""Maximum tokens of a sequence if no length is requested: llama.cpp allocates and clears the whole
context at the start. Agents begin with about 34,000 tokens."""
MAX_SCORES = 1 << 30  # bytes of attention scores, if the option is not given
MIN_CONTEXT_LENGTH = 4096  # tokens, if the model was trained on as many; few requests fit into less
NEED_GPU = {"gpu_layers": "-ngl", "split_mode": "-sm", "main_gpu": "-mg", "tensor_split": "-ts"}


@dataclass(frozen=True)
class ContextNeeds:
    """What the size of a context depends on, in bytes and tokens."""

    trained: int  # tokens of the context that the model was trained on
    sequences: int
    weights: int
    cell: int  # bytes of the keys and values of one token
    graph: int  # bytes that a batch needs for each token of the longest sequence
    memory: int | None  # bytes that are free; None: not known

    def measure(self, size: "ContextSize") -> int:
        """Returns the bytes of the model and a context of this size."""
        longest = size.cells if size.is_shared else size.length
        return self.weights + size.cells * self.cell + longest * self.graph


@dataclass(frozen=True)
class ContextSize:
    length: int  # the maximum tokens of a sequence
    cells: int  # the maximum tokens of all sequences together
    is_shared: bool = False  # sequences share the cells; otherwise each has `length` cells


def choose_context(asked: int | None, needs: ContextNeeds) -> ContextSize:
    """Chooses the size of a context; each sequence has its own cells if memory suffices. `asked`:
    the requested tokens of a sequence; 0: those that the model was trained on. None: the same, but
    at most `DEFAULT_CONTEXT_LENGTH`, and as memory allows."""
    if asked is None:
        return _choose_default(needs)
    length = min(asked or needs.trained, needs.trained)
    separate = ContextSize(length, length * needs.sequences)
    if needs.sequences == 1 or needs.memory is None:
        return separate
    if needs.measure(separate) <= MAX_MEMORY * needs.memory:
        return separate
    return ContextSize(length, length, is_shared=True)


def _choose_default(needs: ContextNeeds) -> ContextSize:
    length = min(needs.trained, DEFAULT_CONTEXT_LENGTH)
    least = min(length, MIN_CONTEXT_LENGTH)
    # A single sequence can use all shared cells. If all sequences are in use, each still has
    # `least` cells.
    cells = min(length * needs.sequences, max(DEFAULT_CONTEXT_LENGTH, least * needs.sequences))
    if needs.memory is not None:
        free = int(DEFAULT_MEMORY_SHARE * needs.memory) - needs.weights
        room = max(1, free // max(1, needs.cell + needs.graph))
        if cells > room:
            # A power of two, since free memory varies from run to run, and snapshots in files are
            # for a context of one size.
            cells = max(least, 1 << (room.bit_length() - 1))
    length = min(length, cells)
    return ContextSize(length, cells, is_shared=cells < length * needs.sequences)


def spares_flash_attention(
    options: EngineOptions, needs: ContextNeeds, size: ContextSize, *, is_offloaded: bool
) -> bool:
    """Returns whether attention is faster without flash attention, and there is memory for its
    scores.

    On a CPU, llama.cpp's flash attention computes fewer than 64 tokens of a sequence one by one.
    Two matrix products, which need all scores in memory, take half of that time or less; only for
    more tokens, after thousands, they take a fifth more.
    """
    types = {options.cache_type_k, options.cache_type_v}
    is_asked = options.flash_attention is not None
    if is_asked or is_offloaded or not types.issubset(PLAIN_TYPES):
        return False
    longest = size.cells if size.is_shared else size.length
    if longest * needs.graph > MAX_SCORES:
        return False
    return needs.memory is None or needs.measure(size) <= DEFAULT_MEMORY_SHARE * needs.memory


def describe_context(asked: int | None, size: ContextSize, needs: ContextNeeds) -> Iterator[str]:
    """Yields messages to the user about the chosen size of the context."""
    if asked is not None and asked > needs.trained:
        yield (
            f"the model was trained on a context of {needs.trained} tokens: "
            f"context_length (-c) {asked} is lowered to that"
        )
    if asked is None and size.length < needs.trained:
        cause = "more is used only on request"
        if size.length < min(needs.trained, DEFAULT_CONTEXT_LENGTH):
            cause = "the free memory has no room for more"
        yield (
            f"the context has {size.length} tokens, the model was trained on {needs.trained}: "
            f"{cause} (context_length, -c)"
        )
    if size.is_shared and asked is None:
        yield f"all sequences share one context of {size.cells} tokens"
    elif size.is_shared:
        yield f"memory is short: all sequences share one context of {size.cells} tokens"


def model_params(options: EngineOptions) -> Any:
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = options.gpu_layers
    params.split_mode = SPLIT_MODES[options.split_mode]
    params.main_gpu = options.main_gpu
    params.load_mode = LOAD_MODES[options.mmap, options.mlock]
    max_devices = llama_cpp.llama_max_devices()
    if len(options.tensor_split) > max_devices:
        count = len(options.tensor_split)
        message = f"tensor_split has {count} parts, llama.cpp supports {max_devices} devices"
        raise RequestError(message, where="/tensor_split")
    if options.tensor_split:
        params.tensor_split = (ctypes.c_float * max_devices)(*options.tensor_split)
    # If an older GCC (11, 12) has compiled llama.cpp, its code for AMX crashes on quantised weights
    # (ggml-org/llama.cpp#20824); the compiler is not known here. Elsewhere the default is faster.
    params.use_extra_bufts = b"AMX_INT8 = 1" not in llama_cpp.llama_print_system_info()
    return params


def context_params(options: EngineOptions) -> Any:
    """Returns llama.cpp's parameters of a context, except its length and its sequences."""
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
    """Returns whether a GPU computes some of the layers, if so many are put on it (-1: all)."""
    return gpu_layers != 0 and llama_cpp.llama_supports_gpu_offload()


def describe_unused(options: EngineOptions) -> Iterator[str]:
    """Yields a message to the user about GPU options without effect, if llama.cpp has no GPU."""
    default = EngineOptions()
    asked = [name for name in NEED_GPU if getattr(options, name) != getattr(default, name)]
    if options.gpu_layers <= 0 and "gpu_layers" in asked:
        asked.remove("gpu_layers")
    if asked and not llama_cpp.llama_supports_gpu_offload():
        names = ", ".join(f"{name} ({NEED_GPU[name]})" for name in asked)
        build = "this build of llama-cpp-python has no GPU support, or there is no GPU"
        yield f"{build}; without effect: {names}"
