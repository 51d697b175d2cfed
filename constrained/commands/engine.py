"""Options of how a model is run, in llama-server's spelling."""

import argparse
from collections.abc import Callable
from typing import Any, get_args

from constrained.commands.variables import (
    SWITCH,
    read_flag,
    read_layers,
    read_parts,
    read_switch,
)
from constrained.engine.options import CacheType, EngineOptions, LoadOptions, SplitMode
from constrained.kv.snapshots import CACHE_RAM

# Option -> the end of its variable's name, how to read that, and the value where it is not set.
FALLBACKS: dict[str, tuple[str, Callable[[str], Any], Any]] = {
    "ctx_size": ("CTX_SIZE", int, None),
    "parallel": ("N_PARALLEL", int, None),
    "threads": ("THREADS", int, None),
    "batch_size": ("BATCH", int, None),
    "ubatch_size": ("UBATCH", int, None),
    "flash_attn": ("FLASH_ATTN", read_switch, None),
    "cache_type_k": ("CACHE_TYPE_K", str, None),
    "cache_type_v": ("CACHE_TYPE_V", str, None),
    "gpu_layers": ("N_GPU_LAYERS", read_layers, None),
    "split_mode": ("SPLIT_MODE", str, None),
    "main_gpu": ("MAIN_GPU", int, None),
    "tensor_split": ("TENSOR_SPLIT", read_parts, None),
    "no_kv_offload": ("NO_KV_OFFLOAD", read_flag, None),
    "mlock": ("MLOCK", read_flag, None),
    "no_mmap": ("NO_MMAP", read_flag, None),
    "cache_ram": ("CACHE_RAM", int, CACHE_RAM),
}
# Option -> what the library calls it. What is not here it calls the same, or denies.
NAMES = {"ctx_size": "context_length", "parallel": "sequences", "flash_attn": "flash_attention"}
SAME = ("threads", "threads_batch", "batch_size", "ubatch_size", "cache_type_k", "cache_type_v")
SAME += ("gpu_layers", "split_mode", "main_gpu", "tensor_split", "mlock")
DENIED = {"no_kv_offload": "kv_offload", "no_mmap": "mmap"}


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """How the model is run."""
    add = parser.add_argument_group("engine").add_argument
    help = f"of each sequence; default: {EngineOptions.context_length}; 0: the model's"
    add("-c", "--ctx-size", type=int, metavar="TOKENS", help=help)
    help = f"sequences, each with a context of its own; default: {EngineOptions.sequences}"
    add("-np", "--parallel", type=int, metavar="N", help=help)
    add("-t", "--threads", type=int, help="default: one for each physical core")
    add("-tb", "--threads-batch", type=int, metavar="N", help="for prompts; default: as -t")
    help = f"tokens of one decode, at most; default: {EngineOptions.batch_size}"
    add("-b", "--batch-size", type=int, metavar="N", help=help)
    help = f"of those, computed at once; default: {EngineOptions.ubatch_size}"
    add("-ub", "--ubatch-size", type=int, metavar="N", help=help)
    add("-fa", "--flash-attn", choices=tuple(SWITCH), help="default: auto")
    types = get_args(CacheType)
    help = f"of the keys in the context: {', '.join(types)}; default: f16"
    add("-ctk", "--cache-type-k", choices=types, metavar="TYPE", help=help)
    help = "of the values; what is quantised needs flash attention"
    add("-ctv", "--cache-type-v", choices=types, metavar="TYPE", help=help)
    _add_devices(add)
    add("--mlock", action="store_true", default=None, help="never swap the model out")
    add("--no-mmap", action="store_true", default=None, help="read the file, do not map it")
    help = f"for prompts not in use, default: {CACHE_RAM}; 0: none; -1: no limit"
    add("-cram", "--cache-ram", type=int, metavar="MIB", help=help)
    add("--cache-dir", metavar="DIR", help="keep prompts there too, for the next run")
    help = "the same request and seed give the same reply, whatever was cached; slower"
    add("--deterministic", action="store_true", help=help)
    help = "token by token, also where the reply repeats the prompt; the reply is the same"
    add("--no-draft", action="store_true", help=help)


def _add_devices(add: Callable[..., Any]) -> None:
    """What is on which GPU."""
    add("-ngl", "--gpu-layers", metavar="N", help="layers on the GPU; default: all")
    help = "how several GPUs share the model; default: layer"
    add("-sm", "--split-mode", choices=get_args(SplitMode), help=help)
    add("-mg", "--main-gpu", type=int, metavar="N", help="the GPU for what is not split")
    add("-ts", "--tensor-split", metavar="N0,N1", help="the parts of several GPUs, such as 3,1")
    help = "keep the context in the main memory"
    add("-nkvo", "--no-kv-offload", action="store_true", default=None, help=help)


def read_engine_options(options: argparse.Namespace) -> LoadOptions:
    """What the completed options say, by the names of the library."""
    given: dict[str, Any] = {new: getattr(options, old) for old, new in NAMES.items()}
    given |= {name: getattr(options, name) for name in SAME}
    given |= {new: False for old, new in DENIED.items() if getattr(options, old)}
    read: Any = {name: value for name, value in given.items() if value is not None}
    return read
