"""The options of a model, in llama.cpp's terms; checked before any file is read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict, get_args

from constrained.errors import RequestError, describe_unknown

PLAIN_TYPES = ("f32", "f16", "bf16")  # of the KV cache, not quantised
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
SplitMode = Literal["none", "layer", "row"]

MAX_THREADS = 512  # GGML_MAX_N_THREADS; with more llama.cpp ends the process
MAX_WAITING = 1024  # the default maximum of waiting requests
CACHE_RAM = 1024  # MiB of memory for cached prompts
UINT32, INT32 = 2**32 - 1, 2**31 - 1
LIMITS = {
    "context_length": (0, UINT32),
    "sequences": (1, UINT32),
    "threads": (0, MAX_THREADS),
    "threads_batch": (0, MAX_THREADS),
    "batch_size": (1, INT32),
    "ubatch_size": (1, INT32),
    "gpu_layers": (-1, INT32),
    "main_gpu": (0, INT32),
}
KINDS = {"cache_type_k": CacheType, "cache_type_v": CacheType, "split_mode": SplitMode}
UNSET = ("context_length", "threads", "threads_batch")  # may be None
FLAGS = ("kv_offload", "mmap", "mlock")


class LoadOptions(TypedDict, total=False):
    """Options of `load`; `EngineOptions` explains them."""

    context_length: int | None
    sequences: int
    threads: int | None
    threads_batch: int | None
    batch_size: int
    ubatch_size: int
    flash_attention: bool | None
    cache_type_k: CacheType
    cache_type_v: CacheType
    gpu_layers: int
    split_mode: SplitMode
    main_gpu: int
    tensor_split: tuple[float, ...]
    kv_offload: bool
    mmap: bool
    mlock: bool


@dataclass(frozen=True)
class EngineOptions:
    """How a model is loaded and run; the options of llama-server by their long names.

    Args:
        context_length: tokens of each sequence, at most the length that the model was trained on,
            which 0 selects. None: the same, but at most 65,536, and at most half of the free memory
            (at least 4,096); `model.notices` has a note if that is less.
        sequences: how many requests are decoded together, up to 256. Each has its own context, or
            all share one if llama.cpp cannot allocate as much memory.
        threads: CPU threads; None or 0: one per physical core.
        threads_batch: CPU threads for prompts; None or 0: as `threads`.
        batch_size: maximum number of tokens in one forward pass. Other requests wait for a long
            prompt no longer than that.
        ubatch_size: how many of these tokens are computed at once. More is faster on a GPU, but
            takes memory.
        flash_attention: switch flash attention on or off; None: on a GPU, llama.cpp decides; on
            the CPU it is off, where it is slower, unless the context is too long for the memory.
        cache_type_k: type of the keys in the KV cache.
        cache_type_v: type of the values in the KV cache; quantised types need flash attention.
        gpu_layers: number of layers on the GPU, if there is one; -1: all.
        split_mode: how several GPUs share the model.
        main_gpu: the GPU for the whole model if it is not split, or for small tensors if it is
            split by row.
        tensor_split: proportions of several GPUs, such as (3, 1); empty: according to their memory.
        kv_offload: keep the KV cache on the GPU.
        mmap: map the file into memory instead of reading it, where possible.
        mlock: lock the model in memory, so that it is never swapped out.

    Raises:
        RequestError: a value is not valid, or two options contradict each other; `where` names the
            option.
    """

    context_length: int | None = None
    sequences: int = 1
    threads: int | None = None
    threads_batch: int | None = None
    batch_size: int = 512
    ubatch_size: int = 512
    flash_attention: bool | None = None
    cache_type_k: CacheType = "f16"
    cache_type_v: CacheType = "f16"
    gpu_layers: int = -1
    split_mode: SplitMode = "layer"
    main_gpu: int = 0
    tensor_split: tuple[float, ...] = ()
    kv_offload: bool = True
    mmap: bool = True
    mlock: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensor_split", _as_tuple(self.tensor_split))
        for name, (minimum, maximum) in LIMITS.items():
            value = getattr(self, name)
            if value is None and name in UNSET:
                continue
            fits = type(value) is int and minimum <= value <= maximum
            self._require(name, fits, f"{minimum} to {maximum}")
        for name, kind in KINDS.items():
            self._require(name, getattr(self, name) in get_args(kind), " or ".join(get_args(kind)))
        for name in FLAGS:
            self._require(name, isinstance(getattr(self, name), bool), "True or False")
        fits = self.flash_attention is None or isinstance(self.flash_attention, bool)
        self._require("flash_attention", fits, "True, False or None")
        self._require("tensor_split", _are_parts(self.tensor_split), "numbers, not all of them 0")
        self._require_together()

    def _require_together(self) -> None:
        if self.batch_size < self.sequences:  # each of them decodes at least one token
            least = f"at least the number of sequences, {self.sequences}"
            self._require("batch_size", False, least)
        if self.cache_type_v not in PLAIN_TYPES and self.flash_attention is False:
            raise RequestError(
                f"values in {self.cache_type_v} need flash attention, which is off",
                where="/cache_type_v",
                hint="Leave flash attention to llama.cpp, or keep the values in f16",
            )

    def _require(self, name: str, fits: bool, range_: str) -> None:
        if not fits:
            message = f"{name} is {getattr(self, name)!r}, must be {range_}"
            raise RequestError(message, where=f"/{name}")


def read_options(given: Mapping[str, Any]) -> EngineOptions:
    """Reads options by name.

    Raises:
        TypeError: an option is unknown.
        RequestError: see `EngineOptions`.
    """
    known = [field.name for field in fields(EngineOptions)]
    for name in given:
        if name not in known:
            raise TypeError(describe_unknown(name, known))
    return EngineOptions(**given)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _are_parts(value: Any) -> bool:
    """Returns whether these are valid proportions of several GPUs."""
    if not isinstance(value, tuple):
        return False
    for part in value:
        if not isinstance(part, int | float) or not 0 <= part < math.inf:
            return False
    return not value or sum(value) > 0
