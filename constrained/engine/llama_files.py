"""GGUF files in llama.cpp: their weights, their headers, and the contexts that run them."""

import ctypes
import os
import re
import resource
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import llama_cpp

from constrained.engine.header import Header
from constrained.engine.host import check_gguf
from constrained.engine.llama_params import context_params, model_params
from constrained.engine.llama_vocabulary import read_vocabulary
from constrained.engine.options import UINT32, EngineOptions
from constrained.engine.probe import probe_file
from constrained.engine.protocol import MOST_DRAFTED
from constrained.errors import ModelError

LOG_WARNING, LOG_ERROR = 3, 4  # ggml.h; llama-cpp-python has the numbers of an older ggml
# llama.cpp returns no reason for a failure: it is in the log alone.
HINTS = {
    "unknown model architecture": "A newer llama-cpp-python may know it",
    "corrupted or incomplete": "Download the file again",
    "failed to read": "Download the file again",
    "GGUF file is version": "The file is damaged, or a newer llama-cpp-python is needed",
    "not found": "The file has no weights, or only a part of them",
    "main_gpu": "Name a GPU that there is (main_gpu, -mg)",
    "requires flash_attn": "Leave flash attention on (-fa), or keep the values in f16 (-ctv)",
    "does not divide": "Keep the context in another type (cache_type_k, -ctk; cache_type_v, -ctv)",
    "cache types": "Keep keys and values in the same type (-ctk, -ctv)",
}
MOST_MEMORY = 0.8  # of what is free: contexts that each sequence has for itself leave the rest
DEFAULT_MEMORY = 0.5  # of what is free: model and context, where the user gives no length
LEAST_CONTEXT = 4096  # tokens, whatever the memory: less is of little use
HALF = 2  # bytes of a number in a context, where it is not quantised
MEMORY = re.compile("alloc|memory", re.IGNORECASE)
MODEL_MEMORY = "Put fewer layers onto the GPU (gpu_layers, -ngl), or take a smaller quantisation"
CONTEXT_MEMORY = (
    "Take a shorter context (context_length, -c), fewer sequences, smaller types for it "
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


def measure_weights(model: llama_cpp.llama_model_p) -> int:
    """The bytes of the weights."""
    return int(llama_cpp.llama_model_size(model))


def measure_token(model: llama_cpp.llama_model_p) -> int:
    """About so many bytes do keys and values of a token take, as halves; heads of another width
    than the embedding has for each are not known here, and layers with a window take less."""
    heads = max(1, llama_cpp.llama_model_n_head(model))
    width = llama_cpp.llama_model_n_embd(model) // heads * llama_cpp.llama_model_n_head_kv(model)
    return 2 * HALF * width * llama_cpp.llama_model_n_layer(model)


def make_failure(what: str, memory: str | None = None) -> ModelError:
    """Returns an error with the cause that llama.cpp has logged: the first line says most.

    Args:
        what: has failed.
        memory: the hint if there was too little memory for it.
    """
    first = errors[0] if errors else ""
    cause = re.sub(r"^(\w+: )?(error loading model: )?", "", first)
    message = f"{what}: {cause}" if cause else what
    return ModelError(message, hint=_find_hint(cause, memory))


def _find_hint(cause: str, memory: str | None) -> str | None:
    for text, hint in HINTS.items():
        if text in cause:
            return hint
    return memory if any(map(MEMORY.search, errors)) else None


def read_header(path: str | os.PathLike[str]) -> Header:
    """Reads the header of a GGUF file; its vocabulary stays in memory for good.

    Raises:
        ModelError: the file is missing, damaged or not supported.
    """
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
    """All values of the file as text, without the arrays, which llama.cpp does not hand out."""
    read_key = partial(_read_text, llama_cpp.llama_model_meta_key_by_index, model)
    read_value = partial(_read_text, llama_cpp.llama_model_meta_val_str_by_index, model)
    return {read_key(i): read_value(i) for i in range(llama_cpp.llama_model_meta_count(model))}


def _read_text(read: Callable[..., int], model: llama_cpp.llama_model_p, number: int) -> str:
    # As snprintf: it returns the size that the text has, and cuts it to the buffer.
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
        except BaseException as error:  # none can pass through C: stop loading, raise it below
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


def choose_length(trained: int, *, weights: int, token: int, memory: int | None) -> int:
    """The tokens of a context whose length the user leaves open: what the model was trained on, or
    the longest of 4,096, 8,192, 16,384 and so on that there is room for. Snapshots in files are for
    contexts of one length, so it should not change with each run.

    Args:
        trained: tokens.
        weights: bytes of the model.
        token: bytes of a token in the context.
        memory: bytes that are free; None: not known.
    """
    if memory is None:
        return trained
    room = max(0, int(DEFAULT_MEMORY * memory) - weights) // max(1, token)
    if trained <= room:
        return trained
    length = LEAST_CONTEXT
    while 2 * length <= room:
        length *= 2
    return min(trained, length)


def create_default_context(
    model: llama_cpp.llama_model_p, params: Any, *, sequences: int, memory: int | None
) -> tuple[llama_cpp.llama_context_p | None, int]:
    """Makes a context whose length the user leaves open; see `create_context`.

    Where nobody tells how much memory is free, as on a GPU, shorter and shorter ones are tried.

    Returns:
        the context, None if there is no room for any, and the tokens of a sequence.
    """
    length = choose_length(
        llama_cpp.llama_model_n_ctx_train(model),
        weights=measure_weights(model),
        token=measure_token(model),
        memory=memory,
    )
    if memory is not None:
        memory = int(memory * DEFAULT_MEMORY / MOST_MEMORY)
    while True:
        context = create_context(model, params, length=length, sequences=sequences, memory=memory)
        if context or length <= LEAST_CONTEXT:
            return context, length
        length = max(LEAST_CONTEXT, length // 2)


def create_context(
    model: llama_cpp.llama_model_p,
    params: Any,
    *,
    length: int,
    sequences: int,
    memory: int | None = None,
) -> llama_cpp.llama_context_p | None:
    """Makes a context in which each sequence has its own cells, or, where memory is too short for
    that, one that all share; `params.kv_unified` says which. None if there is no room for either.

    Args:
        model: whose context it is.
        params: those of llama.cpp, changed in place.
        length: tokens of a sequence.
        sequences: how many there are.
        memory: bytes that model and context may take; None: as much as llama.cpp gets.
    """
    params.n_seq_max = sequences
    # Logits are asked for once per sequence, and of drafted tokens. By default llama.cpp reserves
    # room for those of every token of a batch: 300 MB for 152,000 tokens.
    params.n_outputs_max = sequences + MOST_DRAFTED
    errors.clear()
    context = None
    # Linux hands out memory that it has not got, so llama.cpp alone would not notice.
    fits = memory is None or sequences == 1
    if memory is not None and not fits:
        needed = measure_weights(model) + length * sequences * measure_token(model)
        fits = needed <= MOST_MEMORY * memory
    if fits and length * sequences <= UINT32:
        params.kv_unified = False
        params.n_ctx = length * sequences
        context = llama_cpp.llama_init_from_model(model, params)
    if not context and sequences > 1:
        params.kv_unified = True
        params.n_ctx = length
        context = llama_cpp.llama_init_from_model(model, params)
    return context


def try_file(path: str) -> None:
    """Loads a file, makes a context as small as can be, and decodes a token; for the child. An
    error of llama.cpp is no crash: the one who asks gets it when it loads the file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would be as large as the model
    options = EngineOptions(threads=1, batch_size=32, ubatch_size=32, gpu_layers=0)
    params = model_params(options)
    params.use_extra_bufts = False  # they copy the weights, which are only mapped else
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        return
    context = create_context(model, context_params(options), length=32, sequences=1)
    if context:
        # Some assertions stand where numbers are computed.
        tokens = (llama_cpp.llama_token * 1)(0)
        llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, 1))
        llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
