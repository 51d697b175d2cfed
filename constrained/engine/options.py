"""The options of a model, in llama.cpp's terms; checked before any file is read.

An option is declared once, as a field of a dataclass: its name, type and default, and what the
docstring says of it. The command line, configuration files and the environment read that
(`constrained.cli.declared`).
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from constrained.errors import RequestError, describe_unknown

PLAIN_TYPES = ("f32", "f16", "bf16")  # of the KV cache, not quantised
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
SplitMode = Literal["none", "layer", "row"]

MAX_THREADS = 512  # GGML_MAX_N_THREADS; with more llama.cpp ends the process
MAX_WAITING = 1024  # the default maximum of waiting requests
CACHE_RAM = 1024  # MiB of memory for cached prompts
UINT32, INT32 = 2**32 - 1, 2**31 - 1
MAX_SCALE = 1_000  # of a LoRA adapter; much more than any use has
SWITCH = {"on": True, "off": False, "auto": None}
# Both mean all layers: llama.cpp as a library does not fit their number to the GPU's memory.
LAYERS = {"auto": -1, "all": -1}


def _read_layers(text: str) -> int:
    return LAYERS[text] if text in LAYERS else int(text)


def _read_parts(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.replace("/", ",").split(",")))


@dataclass(frozen=True)
class Within:
    """The smallest and the largest value of a number."""

    least: int
    most: int = INT32


@dataclass(frozen=True, eq=False)  # the metadata of `Annotated` needs a hash
class ValueForm:
    """How users write a value, where its type does not say it."""

    read: Callable[[str], Any] | None = None  # raises ValueError or KeyError
    words: str = ""  # what the text has to be, for errors
    make: Callable[[Any], Any] | None = None  # the value of a field, of the command line's
    further: Mapping[str, Any] = field(default_factory=dict[str, Any])  # for argparse


PLAIN = ValueForm()
"""As its type says."""
Threads = Annotated[int, Within(0, MAX_THREADS)]
BatchSize = Annotated[int, Within(1)]
Layers = Annotated[int, Within(-1), ValueForm(_read_layers, "a number, auto or all")]
Switch = Annotated[
    bool,
    ValueForm(
        SWITCH.__getitem__,
        "on, off or auto",
        further={"nargs": "?", "const": "on", "choices": tuple(SWITCH)},
    ),
]
Parts = Annotated[tuple[float, ...], ValueForm(_read_parts, "numbers with commas between them")]


class Lora(NamedTuple):
    """A LoRA adapter: a GGUF file, and what its change of the weights is multiplied by."""

    path: Path
    scale: float = 1.0


LoraSource = str | os.PathLike[str] | tuple[str | os.PathLike[str], float]
"""A file, or a file and its scale."""


def _read_adapter(source: LoraSource) -> Lora:
    match source:
        case str() | os.PathLike():
            return Lora(Path(source))
        case (str() | os.PathLike() as path, int() | float() as scale) if (
            not isinstance(scale, bool) and abs(scale) <= MAX_SCALE  # false for NaN
        ):
            return Lora(Path(path), float(scale))
        case _:
            form = f"a file and its scale, from -{MAX_SCALE:,} to {MAX_SCALE:,}"
            message = f"lora has {source!r}, must be a file, or a pair of {form}"
            raise RequestError(message, where="/lora")


def split_scale(text: str) -> Lora:
    """Reads FILE or FILE:SCALE; a file whose name has a colon takes precedence. RequestError: what
    follows the colon is not a scale."""
    name, colon, scale = text.rpartition(":")
    if not colon or Path(text).exists():
        return Lora(Path(text))
    try:
        return _read_adapter((name, float(scale)))
    except ValueError as e:  # also a RequestError
        message = f"lora is {text!r}: there is no such file, and {scale!r} is not a scale"
        hint = "Write FILE or FILE:SCALE, such as adapter.gguf:0.5"
        raise RequestError(message, where="/lora", hint=hint) from e


LoraSources = Annotated[
    Sequence[LoraSource],
    ValueForm(make=lambda texts: tuple(map(split_scale, texts)), further={"action": "append"}),
]
UnlessMinusOne = Annotated[
    int | None, ValueForm(make=lambda number: None if number == -1 else number)
]
"""A number for which the command line may have -1: none."""


def show_plain_types(kind: type[Any]) -> None:
    """Leaves what only `read_hint` reads out of the signature that `help` shows."""
    kind.__init__.__annotations__ = get_type_hints(kind)


def read_hint(hint: Any) -> tuple[Any, Within | None, ValueForm]:
    """Returns what the annotation of a field says: its type without None, its limits, and how
    users write its value."""
    limits, value_form = None, PLAIN
    while get_origin(hint) in (Annotated, Union, UnionType):
        if get_origin(hint) is Annotated:
            found = hint.__metadata__
            limits = next((one for one in found if isinstance(one, Within)), limits)
            value_form = next((one for one in found if isinstance(one, ValueForm)), value_form)
        hint = next(part for part in get_args(hint) if part is not NoneType)
    return hint, limits, value_form


class LoadOptions(TypedDict, total=False):
    """Options of `load`, for type checkers: they cannot read the fields of `EngineOptions`."""

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
    lora: Sequence[LoraSource]


@dataclass(frozen=True)
class EngineOptions:
    """How a model is loaded and run; the options of llama-server by their long names.

    Args:
        context_length: context length of a sequence, in tokens; default: what the model was trained
            on, but at most 65,536 and half of the free memory; 0: what the model was trained on
            (-c --ctx-size TOKENS $LLAMA_ARG_CTX_SIZE; engine). The default is at least 4,096;
            `model.notices` has a note if it is less than the model was trained on.
        sequences: sequences: requests decoded together, each with its own context if memory allows
            (-np --parallel N $LLAMA_ARG_N_PARALLEL; engine). At most 256.
        threads: CPU threads; default: one per physical core, as for 0 (-t --threads N
            $LLAMA_ARG_THREADS; engine).
        threads_batch: CPU threads for prompts; default: same as -t (-tb --threads-batch N).
        batch_size: batch size: maximum tokens in one decode (-b --batch-size N $LLAMA_ARG_BATCH).
            Other requests wait for a long prompt no longer than that.
        ubatch_size: physical batch size: tokens computed at once (-ub --ubatch-size N
            $LLAMA_ARG_UBATCH). More is faster on a GPU, but takes memory.
        flash_attention: flash attention; default: auto (-fa --flash-attn $LLAMA_ARG_FLASH_ATTN).
            None is auto: on a GPU, llama.cpp decides; on the CPU it is off, where it is slower,
            unless the context is too long for the memory.
        cache_type_k: type of the keys in the KV cache: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl,
            q5_0, q5_1 (-ctk --cache-type-k TYPE $LLAMA_ARG_CACHE_TYPE_K).
        cache_type_v: type of the values in the KV cache; quantized ones need flash attention (-ctv
            --cache-type-v TYPE $LLAMA_ARG_CACHE_TYPE_V).
        gpu_layers: layers on the GPU, if there is one; default: all (-ngl --gpu-layers
            --n-gpu-layers N $LLAMA_ARG_N_GPU_LAYERS; engine). -1: all.
        split_mode: how several GPUs share the model (-sm --split-mode $LLAMA_ARG_SPLIT_MODE).
        main_gpu: GPU for tensors that are not split (-mg --main-gpu N $LLAMA_ARG_MAIN_GPU): all of
            them if the model is not split, small ones if it is split by row.
        tensor_split: proportions of several GPUs, such as 3,1; default: according to their memory
            (-ts --tensor-split N0,N1 $LLAMA_ARG_TENSOR_SPLIT).
        kv_offload: keep the KV cache on the GPU (-nkvo --no-kv-offload
            $LLAMA_ARG_NO_KV_OFFLOAD).
        mmap: map the file into memory (--no-mmap $LLAMA_ARG_NO_MMAP); else it is read.
        mlock: lock the model in memory, so that it is never swapped out (--mlock
            $LLAMA_ARG_MLOCK).
        lora: LoRA adapter for the model, as GGUF; its scale is 1 if none is given (repeatable)
            (--lora FILE[:SCALE]). A list of files, or of pairs such as ("adapter.gguf", 0.5).

    Raises:
        RequestError: a value is not valid, or two options contradict each other; `where` names the
            option.
    """

    context_length: Annotated[int, Within(0, UINT32)] | None = None
    sequences: Annotated[int, Within(1, UINT32)] = 1
    threads: Threads | None = None
    threads_batch: Threads | None = None
    batch_size: BatchSize = 512
    ubatch_size: BatchSize = 512
    flash_attention: Switch | None = None
    cache_type_k: CacheType = "f16"
    cache_type_v: CacheType = "f16"
    gpu_layers: Layers = -1
    split_mode: SplitMode = "layer"
    main_gpu: Annotated[int, Within(0)] = 0
    tensor_split: Parts = ()
    kv_offload: bool = True
    mmap: bool = True
    mlock: bool = False
    lora: LoraSources = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensor_split", _as_tuple(self.tensor_split))
        object.__setattr__(self, "lora", _as_tuple(self.lora))
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            kind, limits, _ = read_hint(each.type)
            if value is None and each.default is None:
                continue
            if limits is not None:
                fits = type(value) is int and limits.least <= value <= limits.most
                self._require(name, fits, f"{limits.least} to {limits.most}")
            elif get_origin(kind) is Literal:
                self._require(name, value in get_args(kind), " or ".join(get_args(kind)))
            elif kind is bool and each.default is not None:
                self._require(name, isinstance(value, bool), "True or False")
        fits = self.flash_attention is None or isinstance(self.flash_attention, bool)
        self._require("flash_attention", fits, "True, False or None")
        self._require("tensor_split", _are_parts(self.tensor_split), "numbers, not all of them 0")
        self._require("lora", isinstance(self.lora, tuple), "a list")
        for source in self.lora:
            _read_adapter(source)  # raises an error
        self._require_together()

    @property
    def adapters(self) -> tuple[Lora, ...]:
        """The LoRA adapters, each with its scale."""
        return tuple(map(_read_adapter, self.lora))

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


show_plain_types(EngineOptions)


def read_options(given: Mapping[str, Any]) -> EngineOptions:
    """Reads options by name; TypeError: one is unknown, RequestError: see `EngineOptions`."""
    known = [each.name for each in fields(EngineOptions)]
    for name in given:
        if name not in known:
            raise TypeError(describe_unknown(name, known))
    return EngineOptions(**given)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _are_parts(value: Any) -> bool:
    if not isinstance(value, tuple):
        return False
    for part in value:
        if not isinstance(part, int | float) or not 0 <= part < math.inf:
            return False
    return not value or sum(value) > 0
