"""How an option is declared: once, for the library, the command line, configuration files and the
environment; and the options of a model, in llama.cpp's terms, checked before any file is read."""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypedDict, TypeVar, get_args, get_origin

from constrained.errors import RequestError, describe_unknown

PLAIN_TYPES = ("f32", "f16", "bf16")  # of the KV cache, not quantised
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
SplitMode = Literal["none", "layer", "row"]

MAX_THREADS = 512  # GGML_MAX_N_THREADS; with more llama.cpp ends the process
MAX_WAITING = 1024  # the default maximum of waiting requests
CACHE_RAM = 1024  # MiB of memory for cached prompts
UINT32, INT32 = 2**32 - 1, 2**31 - 1
SWITCH = {"on": True, "off": False, "auto": None}
# Both mean all layers: llama.cpp as a library does not fit their number to the GPU's memory.
LAYERS = {"auto": -1, "all": -1}
PLACE = "        {options}\n"
"""The line of a docstring that becomes the list of the declared options."""
T = TypeVar("T")


def read_switch(text: str) -> bool | None:
    """Reads on, off or auto; raises KeyError for other words."""
    return SWITCH[text]


def read_layers(text: str) -> int:
    """Reads a number, auto or all; raises ValueError for other words."""
    return LAYERS[text] if text in LAYERS else int(text)


def read_parts(text: str) -> tuple[float, ...]:
    """Reads numbers with commas or slashes between them; raises ValueError otherwise."""
    return tuple(map(float, text.replace("/", ",").split(",")))


@dataclass(frozen=True)
class Option:
    """What users see of an option, wherever they give it.

    Args:
        form: how it is written, as in `-c --ctx-size TOKENS $LLAMA_ARG_CTX_SIZE`: its names, what
            the help calls its value, its environment variable. A configuration file has its long
            names. Empty: only the library has this option.
        help: what it does, in one line. The default is added if the line does not have it.
        note: what only readers of the library need, in sentences.
        group: the title in the help; empty: that of its dataclass.
        default: the value if nothing sets it.
        kind: the type of the value; for a field, its annotation.
        read: makes the value of a text; None: what the kind says.
        make: makes the value of a field of the value that the command line has; None: what the
            kind says.
        unit: the command line counts in so many.
        limits: the smallest and the largest value of the field.
        least: the smallest number that the command line takes.
        turns_off: the option makes the field False.
        keep_unset: without a value it stays None in the namespace, and the library or the model
            chooses.
        further: arguments for argparse.
    """

    form: str
    help: str
    note: str = ""
    group: str = ""
    default: Any = None
    kind: Any = str
    read: Callable[[str], Any] | None = None
    make: Callable[[Any], Any] | None = None
    unit: int = 1
    limits: tuple[int, int] | None = None
    least: int | None = None
    turns_off: bool = False
    keep_unset: bool = False
    further: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def names(self) -> list[str]:
        """Its names on the command line."""
        return [word for word in self.form.split() if word.startswith("-")]

    @property
    def key(self) -> str:
        """Its name in the namespace of argparse."""
        long = next(name for name in self.names if name.startswith("--"))
        return long[2:].replace("-", "_")

    @property
    def variable(self) -> str | None:
        """Its environment variable."""
        return next((word[1:] for word in self.form.split() if word.startswith("$")), None)

    @property
    def metavar(self) -> str | None:
        """What the help calls its value."""
        return next((word for word in self.form.split() if word[0] not in "-$"), None)


def option(default: T, form: str, help: str, note: str = "", **details: Any) -> T:
    """Declares a field of a dataclass as an option; the arguments are those of `Option`."""
    declared = Option(form, help, note, default=default, **details)
    return field(default=default, metadata={"option": declared})


def list_options(kind: type[Any]) -> Iterator[tuple[str, Option]]:
    """Yields the name and the declaration of each option of a dataclass."""
    for each in fields(kind):
        if "option" in each.metadata:
            hint: Any = each.type
            if isinstance(hint, UnionType):
                hint = next(part for part in get_args(hint) if part is not NoneType)
            yield each.name, replace(each.metadata["option"], kind=hint)


def document_options(kind: type[T]) -> type[T]:
    """Puts what the declarations of a dataclass say into its docstring."""
    lines: list[str] = []
    for name, declared in list_options(kind):
        text = f"{name}: {'False: ' if declared.turns_off else ''}{declared.help}. {declared.note}"
        if declared.form:
            text = f"{text.rstrip()} (--{declared.key.replace('_', '-')})"
        lines += textwrap.wrap(text, 100, initial_indent=8 * " ", subsequent_indent=12 * " ")
    kind.__doc__ = (kind.__doc__ or "").replace(PLACE, "\n".join([*lines, ""]))
    return kind


class LoadOptions(TypedDict, total=False):
    """Options of `load`, for type checkers, which cannot read the fields of `EngineOptions`."""

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


@document_options
@dataclass(frozen=True)
class EngineOptions:
    """How a model is loaded and run; the options of llama-server by their long names.

    Args:
        {options}

    Raises:
        RequestError: a value is not valid, or two options contradict each other; `where` names the
            option.
    """

    context_length: int | None = option(
        None,
        "-c --ctx-size TOKENS $LLAMA_ARG_CTX_SIZE",
        "context length of a sequence, in tokens; default: what the model was trained on, but at "
        "most 65,536 and half of the free memory; 0: what the model was trained on",
        "The default is at least 4,096; `model.notices` has a note if the model could have more.",
        group="engine",
        limits=(0, UINT32),
    )
    sequences: int = option(
        1,
        "-np --parallel N $LLAMA_ARG_N_PARALLEL",
        "sequences: requests decoded together, each with its own context if memory allows",
        "At most 256. All share one context if llama.cpp cannot allocate as much memory.",
        group="engine",
        limits=(1, UINT32),
    )
    threads: int | None = option(
        None,
        "-t --threads N $LLAMA_ARG_THREADS",
        "CPU threads; default, and 0: one per physical core",
        group="engine",
        limits=(0, MAX_THREADS),
    )
    threads_batch: int | None = option(
        None,
        "-tb --threads-batch N",
        "CPU threads for prompts; default, and 0: same as -t",
        limits=(0, MAX_THREADS),
    )
    batch_size: int = option(
        512,
        "-b --batch-size N $LLAMA_ARG_BATCH",
        "batch size: maximum tokens in one decode",
        "Other requests wait for a long prompt no longer than that.",
        limits=(1, INT32),
    )
    ubatch_size: int = option(
        512,
        "-ub --ubatch-size N $LLAMA_ARG_UBATCH",
        "physical batch size: tokens computed at once",
        "More is faster on a GPU, but takes memory.",
        limits=(1, INT32),
    )
    flash_attention: bool | None = option(
        None,
        "-fa --flash-attn $LLAMA_ARG_FLASH_ATTN",
        "flash attention; default: auto",
        "None is auto: on a GPU, llama.cpp decides; on the CPU it is off, where it is slower, "
        "unless the context is too long for the memory.",
        read=read_switch,
        further={"nargs": "?", "const": "on", "choices": tuple(SWITCH)},
    )
    cache_type_k: CacheType = option(
        "f16",
        "-ctk --cache-type-k TYPE $LLAMA_ARG_CACHE_TYPE_K",
        f"type of the keys in the KV cache: {', '.join(get_args(CacheType))}",
    )
    cache_type_v: CacheType = option(
        "f16",
        "-ctv --cache-type-v TYPE $LLAMA_ARG_CACHE_TYPE_V",
        "type of the values in the KV cache; quantised ones need flash attention",
    )
    gpu_layers: int = option(
        -1,
        "-ngl --gpu-layers --n-gpu-layers N $LLAMA_ARG_N_GPU_LAYERS",
        "layers on the GPU, if there is one; default, and -1: all",
        group="engine",
        read=read_layers,
        limits=(-1, INT32),
    )
    split_mode: SplitMode = option(
        "layer",
        "-sm --split-mode $LLAMA_ARG_SPLIT_MODE",
        "how several GPUs share the model",
    )
    main_gpu: int = option(
        0,
        "-mg --main-gpu N $LLAMA_ARG_MAIN_GPU",
        "GPU for tensors that are not split",
        "These are all tensors if the model is not split, and small ones if it is split by row.",
        limits=(0, INT32),
    )
    tensor_split: tuple[float, ...] = option(
        (),
        "-ts --tensor-split N0,N1 $LLAMA_ARG_TENSOR_SPLIT",
        "proportions of several GPUs, such as 3,1; default: according to their memory",
        read=read_parts,
    )
    kv_offload: bool = option(
        True,
        "-nkvo --no-kv-offload $LLAMA_ARG_NO_KV_OFFLOAD",
        "keep the KV cache in main memory",
        turns_off=True,
    )
    mmap: bool = option(
        True,
        "--no-mmap $LLAMA_ARG_NO_MMAP",
        "read the file instead of mapping it",
        turns_off=True,
    )
    mlock: bool = option(
        False, "--mlock $LLAMA_ARG_MLOCK", "lock the model in memory, so that none is swapped out"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensor_split", _as_tuple(self.tensor_split))
        for name, declared in list_options(EngineOptions):
            value, kind = getattr(self, name), declared.kind
            if value is None and declared.default is None:
                continue
            if declared.limits is not None:
                least, most = declared.limits
                fits = type(value) is int and least <= value <= most
                self._require(name, fits, f"{least} to {most}")
            elif get_origin(kind) is Literal:
                self._require(name, value in get_args(kind), " or ".join(get_args(kind)))
            elif kind is bool and declared.default is not None:
                self._require(name, isinstance(value, bool), "True or False")
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
    known = [each.name for each in fields(EngineOptions)]
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
