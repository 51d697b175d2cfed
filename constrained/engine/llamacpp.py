"""The engine that runs GGUF models: llama.cpp, through the ctypes bindings of llama-cpp-python."""

import ctypes
import os
import re
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import llama_cpp
import numpy as np

from constrained.engine.batch import batches, check_chunks, check_copy
from constrained.engine.header import Header
from constrained.engine.host import check_gguf, physical_cores
from constrained.engine.llama_vocabulary import read_vocabulary
from constrained.engine.protocol import Chunk, Sampling
from constrained.errors import ContextError, ModelError, RequestError

LOG_ERROR = 4  # ggml.h; the numbers in llama-cpp-python are those of an older ggml
MOST_THREADS = 512  # GGML_MAX_N_THREADS; with more llama.cpp ends the process
NO_SLOT = 1  # llama_decode: no room in the KV cache
HINTS = {
    "unknown model architecture": "A newer llama-cpp-python may know it",
    "corrupted or incomplete": "Download the file again",
    "failed to read": "Download the file again",
    "GGUF file is version": "The file is damaged, or a newer llama-cpp-python is needed",
    "not found": "The file has no weights, or only a part of them",
    "allocate": "Load fewer layers to the GPU, a shorter context or a smaller quantisation",
}
_errors: deque[str] = deque(maxlen=20)


@llama_cpp.llama_log_callback
def _log(level: int, text: bytes, _data: object) -> None:
    if level == LOG_ERROR:
        _errors.append(text.decode("utf-8", "replace").strip())


llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def _failure(what: str) -> ModelError:
    """Returns an error with the cause that llama.cpp has logged: the first line says most."""
    line = re.sub(r"^(\w+: )?(error loading model: )?", "", _errors[0] if _errors else "")
    hint = next((hint for cause, hint in HINTS.items() if cause in line), None)
    return ModelError(f"{what}: {line}" if line else what, hint=hint)


def load(
    path: str | os.PathLike[str],
    *,
    context_length: int = 4096,
    sequences: int = 1,
    threads: int | None = None,
    gpu_layers: int = -1,
    flash_attention: bool | None = None,
    progress: Callable[[float], None] | None = None,
) -> "LlamaEngine":
    """Loads a model.

    Args:
        path: a GGUF file; of a split one, the first part.
        context_length: tokens of each sequence, at most what the model was trained on; 0: that.
        sequences: how many can be decoded together, up to 256. Each has its own full context,
            or all share one where llama.cpp cannot allocate as much.
        threads: None or 0 for one per physical core.
        gpu_layers: how many layers to put onto the GPU, if there is one; -1: all.
        flash_attention: None lets llama.cpp decide.
        progress: is told the part done, 0 to 1, while the file is read. If it raises, so does this.

    Raises:
        ModelError: the file is missing, damaged or not supported, or memory is short.
        RequestError: a number is out of its range.
    """
    _require("context_length", context_length, 0, 2**32 - 1)
    _require("sequences", sequences, 1, 2**32 - 1)
    _require("threads", threads or 0, 0, MOST_THREADS)
    path = Path(path)
    check_gguf(path)
    model = _load_model(path, gpu_layers, progress)
    trained = llama_cpp.llama_model_n_ctx_train(model)
    length = min(context_length or trained, trained)
    params = llama_cpp.llama_context_default_params()
    params.n_threads = params.n_threads_batch = threads or physical_cores()
    if flash_attention is not None:
        params.flash_attn_type = int(flash_attention)
    context = _create_context(model, params, length, sequences)
    if not context:
        llama_cpp.llama_model_free(model)
        raise _failure(f"no context of {length} tokens for {sequences} sequences")
    return LlamaEngine(model, context, length)


def borrow(llama: Any) -> "LlamaEngine":
    """An engine on a `llama_cpp.Llama`, with one sequence; its context is emptied, never freed.

    Raises:
        ModelError: it is no such object, is closed, or computes embeddings alone.
    """
    try:
        model, context = llama._model.model, llama._ctx.ctx
        params = llama.context_params
    except AttributeError as e:
        hint = "Give a llama_cpp.Llama that is open"
        raise ModelError(f"{llama!r} has no model", hint=hint) from e
    if not model or not context:
        raise ModelError("the llama_cpp.Llama is closed", hint="Keep it open")
    if params.embeddings:
        hint = "Make it without embedding=True"
        raise ModelError("the llama_cpp.Llama computes embeddings, no logits", hint=hint)
    llama.reset()
    if memory := llama_cpp.llama_get_memory(context):
        llama_cpp.llama_memory_clear(memory, True)
    return LlamaEngine(model, context, llama.n_ctx(), owner=llama)


def _require(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise RequestError(f"{name} is {value}, must be {least} to {most}")


def read_header(path: str | os.PathLike[str]) -> Header:
    """Reads what a GGUF file says without its weights; its vocabulary stays in memory for good.

    Raises:
        ModelError: the file is missing, damaged or not supported.
    """
    path = Path(path)
    check_gguf(path)
    return _header(_load_model(path, 0, None, vocab_only=True), lambda: True)


def _header(model: llama_cpp.llama_model_p, is_open: Callable[[], bool]) -> Header:
    vocabulary = read_vocabulary(model, is_open)
    vocab = cast(Any, llama_cpp.llama_model_get_vocab(model))
    bos, eos = (
        "" if token < 0 else vocabulary.text([token]).decode("utf-8", "replace")
        for token in cast(
            list[int], [llama_cpp.llama_vocab_bos(vocab), llama_cpp.llama_vocab_eos(vocab)]
        )
    )
    return Header(vocabulary, bos, eos, _read_metadata(model))


def _read_metadata(model: llama_cpp.llama_model_p) -> dict[str, str]:
    """All values of the file as text, without the arrays, which llama.cpp does not tell."""
    read_key = partial(_read_text, llama_cpp.llama_model_meta_key_by_index, model)
    read_value = partial(_read_text, llama_cpp.llama_model_meta_val_str_by_index, model)
    return {read_key(i): read_value(i) for i in range(llama_cpp.llama_model_meta_count(model))}


def _read_text(read: Callable[..., int], model: llama_cpp.llama_model_p, number: int) -> str:
    size = read(model, number, ctypes.create_string_buffer(1), 1)
    room: Any = ctypes.create_string_buffer(size + 1)
    read(model, number, room, size + 1)
    return room.value.decode("utf-8", "replace")


def _load_model(
    path: Path,
    gpu_layers: int,
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

    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = gpu_layers
    params.vocab_only = vocab_only
    # llama.cpp's code for AMX crashes on quantised weights where an older GCC (11, 12) compiled it
    # (ggml-org/llama.cpp#20824), which nobody can ask. Elsewhere the default stays: it is faster.
    params.use_extra_bufts = b"AMX_INT8 = 1" not in llama_cpp.llama_print_system_info()
    params.progress_callback = report
    _errors.clear()
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if raised:
        if model:
            llama_cpp.llama_model_free(model)
        raise raised[0]
    if not model:
        raise _failure(f"{path} cannot be loaded")
    return model


def _create_context(
    model: llama_cpp.llama_model_p, params: Any, length: int, sequences: int
) -> llama_cpp.llama_context_p | None:
    params.n_seq_max = sequences
    # Logits are asked for once per sequence. By default llama.cpp reserves room for those of
    # every token of a batch: 300 MB for 152,000 tokens.
    params.n_outputs_max = sequences
    _errors.clear()
    for shared in (False, True) if sequences > 1 else (False,):
        params.kv_unified = shared
        params.n_ctx = length if shared else length * sequences
        if context := llama_cpp.llama_init_from_model(model, params):
            return context
    return None


class _Batch:
    """A llama_batch that lies in numpy arrays: filling it takes microseconds, not milliseconds."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self._table = np.zeros((3, capacity), np.int32)
        self._wanted = np.zeros(capacity, np.int8)
        tokens, positions, sequences = self._table
        arrays = {
            "token": tokens,
            "pos": positions,
            "n_seq_id": np.ones(capacity, np.int32),
            "seq_id": sequences.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp),
            "logits": self._wanted,
        }
        types: dict[str, Any] = dict(cast(Any, llama_cpp.llama_batch._fields_))
        fields = {name: array.ctypes.data_as(types[name]) for name, array in arrays.items()}
        self._arrays = arrays  # what the pointers point to
        self._batch = llama_cpp.llama_batch(**fields)

    def fill(self, table: np.ndarray) -> llama_cpp.llama_batch:
        """Takes over what `batches` has laid out."""
        size = table.shape[1]
        self._table[:, :size] = table[:3]
        self._wanted[:size] = table[3]
        self._batch.n_tokens = size
        return self._batch


class _ChainSampler:
    """llama.cpp's sampler chain, in llama-server's order."""

    def __init__(self, sampling: Sampling, draw: Callable[[Any, int], int]):
        chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        self._chain = chain
        self._draw = draw
        self._free = weakref.finalize(self, llama_cpp.llama_sampler_free, chain)
        stages = [
            llama_cpp.llama_sampler_init_top_k(sampling.top_k),
            llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1),
            llama_cpp.llama_sampler_init_min_p(sampling.min_p, 1),
            llama_cpp.llama_sampler_init_temp(sampling.temperature),
            llama_cpp.llama_sampler_init_dist(sampling.some_seed()),
        ]
        if sampling.temperature == 0:
            stages = [llama_cpp.llama_sampler_init_greedy()]
        for stage in stages:
            llama_cpp.llama_sampler_chain_add(chain, stage)

    def sample(self, slot: int) -> int:
        self._require_open()
        return self._draw(self._chain, slot)

    def accept(self, token: int) -> None:
        self._require_open()
        llama_cpp.llama_sampler_accept(self._chain, token)

    def close(self) -> None:
        self._free()

    def _require_open(self) -> None:
        if not self._free.alive:
            raise ModelError("the sampler is closed")


def _free(context: llama_cpp.llama_context_p, model: llama_cpp.llama_model_p) -> None:
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)


def _keep(owner: object) -> None:
    """Does nothing to what somebody else owns."""


class LlamaEngine:
    """An `Engine` on a model in llama.cpp; made by `load`. Also a context manager.

    Attributes, beside those of `Engine`:
        n_ctx_train: how many tokens of context the model was trained on.
        architecture: of the model, such as "qwen3".
        header: what the file says beside its weights: all values, how to sample.
        chat_templates: by name, the default one under "".
        chat_template: the default one, or None.
        sampling: llama-server's defaults, and over them what the file recommends.
        bos_text, eos_text: what templates call `bos_token` and `eos_token`; "" if there is none.
    """

    def __init__(
        self,
        model: llama_cpp.llama_model_p,
        context: llama_cpp.llama_context_p,
        context_length: int,
        owner: Any = None,
    ):
        # Whoever owns the model frees it, and lives at least as long as this engine.
        release = partial(_keep, owner) if owner else partial(_free, context, model)
        free = weakref.finalize(self, release)
        self._free, self._model, self._context = free, model, context
        self._batch = _Batch(llama_cpp.llama_n_batch(context))
        self._slots: list[int] = []  # where in the last batch the last token of each chunk is
        self.header = header = _header(model, lambda: free.alive)
        self.vocabulary = header.vocabulary
        self.context_length = context_length
        self.n_ctx_train = llama_cpp.llama_model_n_ctx_train(model)
        self.max_sequences = llama_cpp.llama_n_seq_max(context) if owner is None else 1
        self._lengths = [0] * self.max_sequences
        self._is_recurrent = llama_cpp.llama_model_is_recurrent(
            model
        ) or llama_cpp.llama_model_is_hybrid(model)
        self.architecture = header.metadata.get("general.architecture", "")
        self.chat_templates, self.chat_template = header.chat_templates, header.chat_template
        self.sampling = header.sampling
        self.bos_text, self.eos_text = header.bos_text, header.eos_text

    def __enter__(self) -> "LlamaEngine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._free()

    def decode(self, chunks: Sequence[Chunk]) -> list[np.ndarray]:
        self._require_open()
        check_chunks(chunks, self._lengths, self.context_length)
        self._slots = []
        if not chunks:
            return []
        tables = batches(chunks, self._batch.capacity)
        for number, table in enumerate(tables):
            _errors.clear()
            if status := llama_cpp.llama_decode(self._context, self._batch.fill(table)):
                if status == NO_SLOT and number == 0:
                    raise ContextError("the context that the sequences share is full")
                for chunk in chunks:
                    self.release(chunk.sequence)
                raise _failure("llama.cpp cannot decode")
        for chunk in chunks:
            self._lengths[chunk.sequence] += len(chunk.tokens)
        self._slots = np.flatnonzero(tables[-1][3]).tolist()
        return [self._logits(at) for at in self._slots]

    def _logits(self, at: int) -> np.ndarray:
        row = llama_cpp.llama_get_logits_ith(self._context, at)
        return np.ctypeslib.as_array(row, (len(self.vocabulary.tokens),))

    def sampler(self, sampling: Sampling) -> _ChainSampler:
        return _ChainSampler(sampling, self._draw)

    def _draw(self, chain: Any, slot: int) -> int:
        self._require_open()
        return llama_cpp.llama_sampler_sample(chain, self._context, self._slots[slot])

    def rollback(self, sequence: int, length: int) -> bool:
        self._require_open()
        if not self.can_cut(sequence, length):
            return False
        memory = llama_cpp.llama_get_memory(self._context)
        if memory and not llama_cpp.llama_memory_seq_rm(memory, sequence, length, -1):
            return False
        self._lengths[sequence] = length
        return True

    def can_cut(self, sequence: int, length: int) -> bool:
        self._require_open()
        if length >= self._lengths[sequence]:
            return length == self._lengths[sequence]
        memory = llama_cpp.llama_get_memory(self._context)
        # A recurrent model has one state, of the whole sequence. A sliding window may have dropped
        # what a shorter sequence would have to see again.
        if not memory or self._is_recurrent:
            return False
        return llama_cpp.llama_memory_seq_pos_min(memory, sequence) == 0

    def copy(self, source: int, target: int, length: int) -> None:
        self._require_open()
        check_copy(self, source, target, length, self._lengths[target])
        memory = llama_cpp.llama_get_memory(self._context)
        # The whole first: sequences that have contexts of their own cannot copy a part.
        llama_cpp.llama_memory_seq_cp(memory, source, target, -1, -1)
        self._lengths[target] = self._lengths[source]
        self.rollback(target, length)

    def release(self, sequence: int) -> None:
        self._require_open()
        memory = llama_cpp.llama_get_memory(self._context)
        if memory:
            llama_cpp.llama_memory_seq_rm(memory, sequence, -1, -1)
        self._lengths[sequence] = 0

    def metadata(self, key: str) -> str | None:
        """Returns a value of the GGUF as text, or None: it is absent, or an array."""
        self._require_open()
        return self.header.metadata.get(key)

    def _require_open(self) -> None:
        if not self._free.alive:
            raise ModelError("the model is closed")
