"""Loads GGUF files with llama.cpp, reads their headers, and creates contexts."""

import ctypes
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import llama_cpp

from constrained.engine.header import Header
from constrained.engine.host import check_gguf
from constrained.engine.llama_params import (
    BITS,
    MIN_CONTEXT_LENGTH,
    ContextNeeds,
    ContextSize,
    context_params,
    model_params,
)
from constrained.engine.llama_vocabulary import read_vocabulary
from constrained.engine.options import PLAIN_TYPES, UINT32, EngineOptions, Lora
from constrained.engine.probe import probe_file
from constrained.engine.protocol import MAX_DRAFTED
from constrained.errors import ModelError
from constrained.limits.process_limits import MIB, limit_memory

LOG_WARNING, LOG_ERROR = 3, 4  # ggml.h; llama-cpp-python has the numbers of an older ggml
OTHER_MODEL = "Use the adapter with the model that it was trained for"
# llama.cpp reports the reason of a failure only in its log.
HINTS = {
    "unknown model architecture": "A newer llama-cpp-python may know it",
    "corrupted or incomplete": "Download the file again",
    "failed to read": "Download the file again",
    "GGUF file is version": "The file is damaged, or a newer llama-cpp-python is needed",
    "not found": "The file has no weights, or only a part of them",
    "main_gpu": "Name a GPU that exists (main_gpu, -mg)",
    "requires flash_attn": "Leave flash attention on (-fa), or keep the values in f16 (-ctv)",
    "does not divide": "Keep the context in another type (cache_type_k, -ctk; cache_type_v, -ctv)",
    "expect general.type": "Give a LoRA adapter (convert_lora_to_gguf.py of llama.cpp)",
    "expect adapter.type": "Only LoRA adapters can be used",
    "LoRA arch mismatch": OTHER_MODEL,
    "wrong base model": OTHER_MODEL,
    "LoRA tensor": "Convert the adapter again, with convert_lora_to_gguf.py of llama.cpp",
    "cache types": "Keep keys and values in the same type (-ctk, -ctv)",
}
PROBE_MEMORY = 2_048 * MIB
"""For the vocabulary and a small context of a file that is tried. Mapped weights do not count, nor
do the addresses that the libraries of a GPU reserve."""
QUANTISED_BLOCK = 32  # numbers; all quantised types of a KV cache have blocks of this size
MEMORY = re.compile("alloc|memory", re.IGNORECASE)
MODEL_MEMORY = "Put fewer layers onto the GPU (gpu_layers, -ngl), or use a smaller quantization"
CONTEXT_MEMORY = (
    "Use a shorter context (context_length, -c), fewer sequences, smaller types for it "
    "(cache_type_k, -ctk; cache_type_v, -ctv), or fewer layers on the GPU (gpu_layers, -ngl)"
)
errors: deque[str] = deque(maxlen=20)
warnings: deque[str] = deque(maxlen=20)


@llama_cpp.llama_log_callback
def _log(level: int, text: bytes, _data: object) -> None:
    line = text.decode("utf-8", "replace").strip()
    if level == LOG_ERROR:
        errors.append(line)
    elif level == LOG_WARNING:
        warnings.append(line)


llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def measure_needs(
    model: llama_cpp.llama_model_p,
    options: EngineOptions,
    memory: int | None,
    *,
    flash_attention: bool,
) -> ContextNeeds:
    """Estimates the memory of a context. Layers with a sliding window, or without attention, need
    less than estimated."""
    heads = max(1, llama_cpp.llama_model_n_head(model))
    # The numbers are those of the first layer. If it has no attention (LFM2), it has no key heads.
    key_heads = llama_cpp.llama_model_n_head_kv(model) or heads
    key_bits = _read_width(model, "key_length") * BITS.get(options.cache_type_k, 16)
    value_bits = _read_width(model, "value_length") * BITS.get(options.cache_type_v, 16)
    layers = llama_cpp.llama_model_n_layer(model)
    # The attention mask has a row for each token of a micro-batch; without flash attention, each
    # head has such rows, too.
    rows = 1 if flash_attention else 1 + heads
    return ContextNeeds(
        trained=llama_cpp.llama_model_n_ctx_train(model),
        sequences=options.sequences,
        weights=int(llama_cpp.llama_model_size(model)) + measure_adapters(options.adapters),
        cell=layers * key_heads * (key_bits + value_bits) // 8,
        graph=4 * rows * options.ubatch_size,
        memory=memory,
    )


def check_keys(model: llama_cpp.llama_model_p, options: EngineOptions) -> None:
    """Raises ModelError if the keys cannot have the requested type. llama.cpp refuses that itself,
    but without flash attention it ends the process."""
    if options.flash_attention is not False or options.cache_type_k in PLAIN_TYPES:
        return
    width = _read_width(model, "key_length")
    if width % QUANTISED_BLOCK:
        kind = options.cache_type_k
        block = f"the block of {QUANTISED_BLOCK} numbers of {kind} does not divide {width}"
        message = f"keys cannot be kept in {kind}: {block}, the size of an attention head"
        raise ModelError(message, hint=HINTS["does not divide"])


def _read_width(model: llama_cpp.llama_model_p, name: str) -> int:
    """Returns the size of an attention head. In models like Qwen3 it does not follow from the size
    of the embedding."""
    metadata = _read_metadata(model)
    key = f"{metadata.get('general.architecture')}.attention.{name}"
    text = metadata.get(key, "")
    if text.isdecimal():
        return int(text)
    return llama_cpp.llama_model_n_embd(model) // max(1, llama_cpp.llama_model_n_head(model))


def make_failure(what: str, memory: str | None = None) -> ModelError:
    """Makes an error with the cause that llama.cpp has logged: the first line, which is the most
    specific."""
    first = errors[0] if errors else ""
    cause = re.sub(r"^(\w+: )?(error loading model: |failed to apply lora adapter: )?", "", first)
    message = f"{what}: {cause}" if cause else what
    return ModelError(message, hint=_find_hint(cause, memory))


def _find_hint(cause: str, memory: str | None) -> str | None:
    for text, hint in HINTS.items():
        if text in cause:
            return hint
    return memory if any(map(MEMORY.search, errors)) else None


def read_header(path: str | os.PathLike[str]) -> Header:
    """Reads the header of a GGUF file. Its vocabulary stays in memory until the process ends."""
    path = Path(path)
    check_gguf(path)
    probe_file(path)
    model = load_model(path, EngineOptions(gpu_layers=0), None, vocab_only=True)
    return make_header(model, lambda: True)


def make_header(model: llama_cpp.llama_model_p, is_open: Callable[[], bool]) -> Header:
    vocabulary = read_vocabulary(model, is_open)
    vocab = cast(Any, llama_cpp.llama_model_get_vocab(model))

    def spell(token: Any) -> str:
        if token < 0:
            return ""
        return vocabulary.text([token]).decode("utf-8", "replace")

    return Header(
        vocabulary,
        bos_text=spell(llama_cpp.llama_vocab_bos(vocab)),
        eos_text=spell(llama_cpp.llama_vocab_eos(vocab)),
        metadata=_read_metadata(model),
    )


def _read_metadata(model: llama_cpp.llama_model_p) -> dict[str, str]:
    """Returns the metadata of the file as text, without arrays: llama.cpp does not return those."""
    read_key = partial(_read_text, llama_cpp.llama_model_meta_key_by_index, model)
    read_value = partial(_read_text, llama_cpp.llama_model_meta_val_str_by_index, model)
    return {read_key(i): read_value(i) for i in range(llama_cpp.llama_model_meta_count(model))}


def _read_text(read: Callable[..., int], model: llama_cpp.llama_model_p, number: int) -> str:
    # Like snprintf, it returns the size of the whole text, and cuts the text to the buffer.
    size = read(model, number, ctypes.create_string_buffer(1), 1)
    room: Any = ctypes.create_string_buffer(size + 1)
    read(model, number, room, size + 1)
    return room.value.decode("utf-8", "replace")


def load_model(
    path: Path,
    options: EngineOptions,
    progress: Callable[[float], None] | None,
    *,
    vocab_only: bool = False,
) -> llama_cpp.llama_model_p:
    raised: list[BaseException] = []

    @llama_cpp.llama_progress_callback
    def report(part: float, _data: object) -> bool:
        try:
            if progress:
                progress(part)
        except BaseException as error:  # it cannot pass through C: stop loading, raise it below
            raised.append(error)
        return not raised

    params = model_params(options)
    params.vocab_only = vocab_only
    params.progress_callback = report
    errors.clear()
    warnings.clear()
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if raised:
        if model:
            llama_cpp.llama_model_free(model)
        raise raised[0]
    if not model:
        raise make_failure(f"{path} cannot be loaded", MODEL_MEMORY)
    return model


def measure_adapters(adapters: Sequence[Lora]) -> int:
    return sum(adapter.path.stat().st_size for adapter in adapters)


def load_adapters(model: llama_cpp.llama_model_p, adapters: Sequence[Lora]) -> list[Any]:
    """Loads LoRA adapters, before a context is created, which reserves memory for them. They are
    freed with the model."""
    loaded: list[Any] = []
    for path, _ in adapters:
        errors.clear()
        adapter: Any = llama_cpp.llama_adapter_lora_init(model, os.fsencode(path))
        if not adapter:
            raise make_failure(f"{path} cannot be used as an adapter")
        if llama_cpp.llama_adapter_get_alora_n_invocation_tokens(adapter):
            message = f"{path} is an adapter that certain tokens activate (aLoRA)"
            raise ModelError(message, hint="Use a LoRA adapter that is always active")
        loaded.append(adapter)
    return loaded


def apply_adapters(
    context: llama_cpp.llama_context_p, adapters: Sequence[Lora], loaded: Sequence[Any]
) -> None:
    """Applies adapters to a context, before it has decoded anything."""
    if not adapters:
        return
    pointers = (llama_cpp.llama_adapter_lora_p_ctypes * len(loaded))(*loaded)
    scales = (ctypes.c_float * len(adapters))(*[adapter.scale for adapter in adapters])
    if llama_cpp.llama_set_adapters_lora(context, pointers, len(loaded), scales):
        raise make_failure("llama.cpp cannot apply the adapters")


def create_context(
    model: llama_cpp.llama_model_p, params: Any, size: ContextSize, *, sequences: int
) -> tuple[llama_cpp.llama_context_p | None, ContextSize]:
    """Creates a context, and returns its size. If memory is too short, all sequences share the
    cells of one; None: it is too short for that as well."""
    params.n_seq_max = sequences
    # Logits are needed for one token of each sequence, and for drafted tokens. By default,
    # llama.cpp reserves memory for those of every token of a batch: 300 MB for 152,000 tokens.
    params.n_outputs_max = sequences + MAX_DRAFTED
    errors.clear()
    context = None
    if size.cells <= UINT32:
        params.kv_unified = size.is_shared
        params.n_ctx = size.cells
        context = llama_cpp.llama_init_from_model(model, params)
    if not context and sequences > 1 and not size.is_shared:
        size = ContextSize(size.length, size.length, is_shared=True)
        params.kv_unified = True
        params.n_ctx = size.cells
        context = llama_cpp.llama_init_from_model(model, params)
    return context, size


def create_default_context(
    model: llama_cpp.llama_model_p, params: Any, size: ContextSize, *, sequences: int
) -> tuple[llama_cpp.llama_context_p | None, ContextSize]:
    """Creates a context as `create_context` does, but halves the length while memory is short: the
    free memory of a GPU is not known beforehand."""
    while True:
        context, made = create_context(model, params, size, sequences=sequences)
        is_short = any(map(MEMORY.search, errors))
        if context or not is_short or made.length <= MIN_CONTEXT_LENGTH:
            return context, made
        length = max(MIN_CONTEXT_LENGTH, made.length // 2)
        size = ContextSize(length, length, is_shared=sequences > 1)


def try_file(path: str, *adapters: str) -> None:
    """Loads a file, creates a small context, and decodes a token; runs in the child of `probe`."""
    loras = [Lora(Path(adapter)) for adapter in adapters]
    with suppress(ImportError):
        limit_memory(PROBE_MEMORY + measure_adapters(loras), with_files=False)
    options = EngineOptions(threads=1, batch_size=32, ubatch_size=32, gpu_layers=0)
    params = model_params(options)
    params.use_extra_bufts = False  # with them, weights would be copied instead of mapped
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise make_failure(f"{path} cannot be loaded")
    loaded = load_adapters(model, loras)
    size = ContextSize(length=32, cells=32)
    context, _ = create_context(model, context_params(options), size, sequences=1)
    if not context:
        raise make_failure(f"{path} has no context")
    apply_adapters(context, loras, loaded)
    # Some assertions of llama.cpp are only reached by a decode.
    tokens = (llama_cpp.llama_token * 1)(0)
    llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, 1))
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
