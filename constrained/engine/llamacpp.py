"""The engine that runs GGUF models with llama.cpp, through the bindings of llama-cpp-python."""

import ctypes
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack, cast

import llama_cpp
import numpy as np

from constrained.engine import llama_files, llama_params, llama_state
from constrained.engine.batch import (
    batches,
    check_chunks,
    check_cut,
    check_empty,
    check_shorter,
    fill_gaps,
    measure_decode,
    sort_chunks,
)
from constrained.engine.host import available_memory, check_gguf
from constrained.engine.numpy_sampler import RowSampler, find_candidates
from constrained.engine.options import LoadOptions, Lora, read_options
from constrained.engine.probe import probe_file
from constrained.engine.protocol import MAX_DRAFTED, Chunk, DecodeSize, Sampling
from constrained.errors import ContextError, ModelError

CANDIDATE = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])  # llama_token_data
NO_SLOT = 1  # llama_decode: no room in the KV cache


def load(
    path: str | os.PathLike[str],
    *,
    progress: Callable[[float], None] | None = None,
    **given: Unpack[LoadOptions],
) -> "LlamaEngine":
    """Loads a model from a GGUF file, of a split one the first part; `given`: see `EngineOptions`.
    `progress` is called with the progress of reading the file, from 0 to 1; an error that it raises
    ends the loading. ModelError: a file is missing, damaged or not supported, memory is short, or
    an adapter is not for this model. New files are first loaded by a child process, see `probe`.
    RequestError: an option is not valid."""
    options = read_options(given)
    path = Path(path)
    adapters = options.adapters
    check_gguf(path)
    for adapter in adapters:
        check_gguf(adapter.path, "adapter")
    probe_file(path, *(adapter.path for adapter in adapters))
    model = llama_files.load_model(path, options, progress)
    try:
        llama_files.check_keys(model, options)
        loaded = llama_files.load_adapters(model, adapters)
    except ModelError:
        llama_cpp.llama_model_free(model)
        raise
    asked, sequences = options.context_length, options.sequences
    is_offloaded = llama_params.offloads(options.gpu_layers)
    # Linux overcommits memory, so llama.cpp would not notice that it is short.
    memory = None if is_offloaded else available_memory()
    flash_attention = options.flash_attention is not False
    needs = llama_files.measure_needs(model, options, memory, flash_attention=flash_attention)
    size = llama_params.choose_context(asked, needs)
    params = llama_params.context_params(options)
    plain = llama_files.measure_needs(model, options, memory, flash_attention=False)
    if llama_params.spares_flash_attention(options, plain, size, is_offloaded=is_offloaded):
        needs = plain
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    create = llama_files.create_default_context if asked is None else llama_files.create_context
    context, size = create(model, params, size, sequences=sequences)
    if not context:
        llama_cpp.llama_model_free(model)
        what = f"no context of {size.length} tokens for {sequences} sequences"
        raise llama_files.make_failure(what, llama_files.CONTEXT_MEMORY)
    llama_files.apply_adapters(context, adapters, loaded)
    notices = [
        *llama_params.describe_unused(options),
        *llama_params.describe_context(asked, size, needs),
        *_describe_unlocked(),
    ]
    return LlamaEngine(
        model,
        context,
        context_length=size.length,
        identify=lambda: llama_state.fingerprint(
            path, params, options.gpu_layers, adapters=adapters
        ),
        offloads=is_offloaded,
        is_shared=size.is_shared,
        path=path,
        notices=notices,
        memory_bytes=needs.measure(size),
    )


def borrow(llama: Any) -> "LlamaEngine":
    """Makes an engine of one sequence from a `llama_cpp.Llama`. Its context is emptied, and never
    freed."""
    try:
        model, context = llama._model.model, llama._ctx.ctx
        params = llama.context_params
    except AttributeError as e:
        hint = "Give a llama_cpp.Llama that is open"
        raise ModelError(f"{llama!r} has no model", hint=hint) from e
    if not model or not context:
        raise ModelError("the llama_cpp.Llama is closed", hint="Keep it open")
    if params.embeddings:
        hint = "Create it without embedding=True"
        raise ModelError("the llama_cpp.Llama computes embeddings, not logits", hint=hint)
    llama.reset()
    memory = llama_cpp.llama_get_memory(context)
    if memory:
        llama_cpp.llama_memory_clear(memory, True)
    path = Path(llama.model_path)
    adapters: list[Lora] = []
    if llama.lora_path:
        adapters.append(Lora(Path(llama.lora_path), llama.lora_scale))
    return LlamaEngine(
        model,
        context,
        context_length=llama.n_ctx(),
        identify=lambda: llama_state.fingerprint(path, params, adapters=adapters),
        offloads=llama_params.offloads(llama.model_params.n_gpu_layers),
        path=path,
        owner=llama,
    )


def _describe_unlocked() -> Iterator[str]:
    for line in llama_files.warnings:
        if "lock" in line:  # if mlock fails, llama.cpp loads the model nevertheless
            cause = line.removeprefix("warning: ").splitlines()[0]
            yield f"the model may be swapped out: {cause}"
            return


def _free(context: llama_cpp.llama_context_p, model: llama_cpp.llama_model_p) -> None:
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)


def _keep(owner: object) -> None:
    """Does nothing; a finalizer with this function keeps the owner alive."""


class Batch:
    """A llama_batch in numpy arrays, which is filled in microseconds. The batch of llama-cpp-python
    takes milliseconds: several calls of ctypes for each token."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self._table = np.zeros((3, capacity), np.int32)
        self._wanted = np.zeros(capacity, np.int8)
        tokens, positions, sequences = self._table
        arrays = {
            "token": tokens,
            "pos": positions,
            "n_seq_id": np.ones(capacity, np.int32),
            # A token may belong to several sequences, so each has a pointer to a list of them.
            "seq_id": sequences.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp),
            "logits": self._wanted,
        }
        types: dict[str, Any] = dict(cast(Any, llama_cpp.llama_batch._fields_))
        fields = {name: array.ctypes.data_as(types[name]) for name, array in arrays.items()}
        self._arrays = arrays  # what the pointers point to
        self._batch = llama_cpp.llama_batch(**fields)

    def fill(self, table: np.ndarray) -> llama_cpp.llama_batch:
        size = table.shape[1]
        self._table[:, :size] = table[:3]
        self._wanted[:size] = table[3]
        self._batch.n_tokens = size
        return self._batch


class ChainSampler:
    """llama.cpp's sampler chain, in llama-server's order; a `Sampler`. It has no grammar sampler:
    the mask is already applied to the logits that llama.cpp reads. `sample_row` samples a token of
    a row with a chain; `row` finds the logits of a row."""

    def __init__(
        self,
        sampling: Sampling,
        sample_row: Callable[[Any, int], int],
        row: Callable[[int], np.ndarray],
        *,
        n_vocab: int,
        context_length: int,
    ):
        sampling.check_tokens(n_vocab)
        chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        self._chain = chain
        self._sample_row = sample_row
        self._row = row
        # If top k is the first stage, only the k most likely tokens are needed.
        is_plain = not (sampling.is_greedy or sampling.biases or sampling.has_penalties)
        self._top_k = sampling.top_k if is_plain else 0
        # The chain owns its stages and frees them.
        self._free = weakref.finalize(self, llama_cpp.llama_sampler_free, chain)
        self._last = sampling.count_last(context_length)
        self._penalties = _make_penalties(sampling, n_vocab, self._last)
        stages = [
            _make_bias(sampling, n_vocab),
            self._penalties,
            *_make_choice(sampling, n_vocab),
        ]
        for stage in stages:
            if stage is not None:
                llama_cpp.llama_sampler_chain_add(chain, stage)

    def sample(self, row: int) -> int:
        self._require_open()
        if self._top_k:
            logits = self._row(row)
            candidates = find_candidates(logits, self._top_k)
            if candidates is not None:
                return self._sample_from(candidates, logits[candidates])
        return self._sample_row(self._chain, row)  # llama.cpp accepts a token when it samples it

    def _sample_from(self, tokens: np.ndarray, logits: np.ndarray) -> int:
        """Samples one of these tokens. llama_sampler_sample would first list all tokens."""
        table = np.zeros(len(tokens), CANDIDATE)
        table["id"], table["logit"] = tokens, logits
        data = table.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
        array = llama_cpp.llama_token_data_array(
            data=data, size=len(table), selected=-1, sorted=False
        )
        llama_cpp.llama_sampler_apply(self._chain, cast(Any, ctypes.byref(array)))
        token = int(array.data[array.selected].id)
        llama_cpp.llama_sampler_accept(self._chain, token)
        return token

    def accept(self, token: int) -> None:
        self._require_open()
        llama_cpp.llama_sampler_accept(self._chain, token)

    def recall(self, tokens: Sequence[int]) -> None:
        self._require_open()
        if self._penalties is None:
            return
        # Only this stage: resetting the chain would also reset the random numbers.
        llama_cpp.llama_sampler_reset(self._penalties)
        for token in tokens[-self._last :]:
            llama_cpp.llama_sampler_accept(self._penalties, token)

    def close(self) -> None:
        self._free()

    def _require_open(self) -> None:
        if not self._free.alive:
            raise ModelError("the sampler is closed")


def _make_bias(sampling: Sampling, n_vocab: int) -> Any:
    if not sampling.biases:
        return None
    pairs = (llama_cpp.llama_logit_bias * len(sampling.biases))(*sampling.biases)
    return llama_cpp.llama_sampler_init_logit_bias(n_vocab, len(pairs), pairs)


def _make_penalties(sampling: Sampling, n_vocab: int, last: int) -> Any:
    if not sampling.has_penalties:
        return None
    return llama_cpp.llama_sampler_init_penalties(
        n_vocab,
        last,
        sampling.repeat_penalty,
        sampling.frequency_penalty,
        sampling.presence_penalty,
    )


def _make_choice(sampling: Sampling, n_vocab: int) -> list[Any]:
    if sampling.is_greedy:
        return [llama_cpp.llama_sampler_init_greedy()]
    # A top k of 0 keeps all tokens; the 1 is the minimum number of tokens that a stage keeps.
    return [
        llama_cpp.llama_sampler_init_top_k(min(sampling.top_k, n_vocab)),
        llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1),
        llama_cpp.llama_sampler_init_min_p(sampling.min_p, 1),
        llama_cpp.llama_sampler_init_temp(sampling.temperature),
        llama_cpp.llama_sampler_init_dist(sampling.some_seed()),
    ]


class LlamaEngine:
    """A model in llama.cpp; an `Engine`, and a context manager. Made by `load`. `header` is that of
    the model file; `notices` are messages to the user, such as options without effect."""

    def __init__(
        self,
        model: llama_cpp.llama_model_p,
        context: llama_cpp.llama_context_p,
        *,
        context_length: int,
        identify: Callable[[], str],
        offloads: bool,
        path: Path,
        is_shared: bool = False,
        owner: Any = None,
        notices: Sequence[str] = (),
        memory_bytes: int = 0,
    ):
        if owner is None:
            free = weakref.finalize(self, _free, context, model)
        else:  # the owner frees the model, and lives at least as long as this engine
            free = weakref.finalize(self, _keep, owner)
        self._free = free
        self._model = model
        self._context = context
        self._batch = Batch(llama_cpp.llama_n_batch(context))
        # For each row of logits, the index of its token in the batch.
        self._batch_indices: list[int] = []
        self._identify = identify
        self.offloads = offloads
        self.splits_uneven = offloads and not is_shared
        self._is_shared = is_shared
        self.last_decode = DecodeSize()
        self.notices = tuple(notices)
        self.memory_bytes = memory_bytes
        self.path = path
        self.header = llama_files.make_header(model, lambda: free.alive)
        self.vocabulary = self.header.vocabulary
        self._rows = self._view_logits(0)  # the logits, in llama.cpp's memory
        self.context_length = context_length
        self.max_sequences = llama_cpp.llama_n_seq_max(context) if owner is None else 1
        # All needed logits must come from the last batch: llama.cpp keeps no others.
        self.max_drafted = min(MAX_DRAFTED, self._batch.capacity - self.max_sequences)
        self._lengths = [0] * self.max_sequences
        self.needs_checkpoints = bool(
            llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model)
        )
        has_window = llama_cpp.llama_model_n_swa(model) > 0
        self._can_remove_fillers = not self.needs_checkpoints and not has_window

    def __enter__(self) -> "LlamaEngine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._free()

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self._require_open()
        check_chunks(self, chunks, self._lengths)
        self._batch_indices, self._rows = [], self._view_logits(0)
        if not chunks:
            return self._rows
        fillers = self._fill_gaps(chunks)
        filled = sort_chunks([*chunks, *fillers])
        tables = batches(filled, self._batch.capacity)
        try:
            self._decode_tables(tables, chunks)
        finally:
            for filler in fillers:
                self._cut(filler.sequence, filler.position)
        self.last_decode = measure_decode(filled, is_shared=self._is_shared)
        for chunk in chunks:
            self._lengths[chunk.sequence] += len(chunk.tokens)
        self._batch_indices = np.flatnonzero(tables[-1][3]).tolist()
        self._rows = self._view_logits(len(self._batch_indices))
        return self._rows

    def _fill_gaps(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Returns chunks that spare passes. They are removed after the decode, so there are none if
        a sequence may not be cut then."""
        if not self.splits_uneven or not self._can_remove_fillers:
            return []
        fillers = fill_gaps(chunks, self._lengths, self.context_length)
        tokens = sum(len(chunk.tokens) for chunk in (*chunks, *fillers))
        return fillers if tokens <= self._batch.capacity else []

    def _decode_tables(self, tables: Sequence[np.ndarray], chunks: Sequence[Chunk]) -> None:
        for number, table in enumerate(tables):
            llama_files.errors.clear()
            status = llama_cpp.llama_decode(self._context, self._batch.fill(table))
            if status:
                # If a batch has no room, llama.cpp undoes this batch, but not those before it.
                if status == NO_SLOT and number == 0:
                    raise ContextError("the context that the sequences share is full")
                # After another failure, the KV cache has an unknown part of the batch (llama.h).
                for chunk in chunks:
                    self.release(chunk.sequence)
                raise llama_files.make_failure("llama.cpp cannot decode")

    def _view_logits(self, count: int) -> np.ndarray:
        """Returns the first `count` rows of logits of the last batch, in its order of tokens."""
        shape = (count, len(self.vocabulary.tokens))
        if not count:  # then llama.cpp has no memory for them
            return np.empty(shape, np.float32)
        # Not a copy: the mask has to change llama.cpp's memory, from which its samplers read.
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._context), shape)

    def sampler(self, sampling: Sampling) -> ChainSampler | RowSampler:
        size, length = len(self.vocabulary.tokens), self.context_length
        # A chain first lists all tokens, which takes 16 times as long as finding the largest logit.
        if sampling.is_argmax:
            return RowSampler(sampling, self._find_row, n_vocab=size, context_length=length)
        return ChainSampler(
            sampling, self._sample_row, self._find_row, n_vocab=size, context_length=length
        )

    def _find_row(self, row: int) -> np.ndarray:
        self._require_open()
        return self._rows[row]

    def _sample_row(self, chain: Any, row: int) -> int:
        self._require_open()
        return llama_cpp.llama_sampler_sample(chain, self._context, self._batch_indices[row])

    def rollback(self, sequence: int, length: int) -> bool:
        self._require_open()
        return self.can_cut(sequence, length) and self._cut(sequence, length)

    def _cut(self, sequence: int, length: int) -> bool:
        memory = llama_cpp.llama_get_memory(self._context)  # None if the model has no KV cache
        if memory and not llama_cpp.llama_memory_seq_rm(memory, sequence, length, -1):
            return False
        self._lengths[sequence] = length
        return True

    def can_cut(self, sequence: int, length: int) -> bool:
        self._require_open()
        if length >= self._lengths[sequence]:
            return length == self._lengths[sequence]
        memory = llama_cpp.llama_get_memory(self._context)
        # A recurrent model has only the state after the last token. A sliding window may have
        # dropped tokens that a shorter sequence attends to.
        if not memory or self.needs_checkpoints:
            return False
        return llama_cpp.llama_memory_seq_pos_min(memory, sequence) == 0

    def copy(self, source: int, target: int, length: int) -> None:
        self._require_open()
        check_empty(target, self._lengths[target])
        check_cut(self, source, length)
        # If sequences do not share cells, llama.cpp copies whole sequences only. So all is copied,
        # and then cut.
        memory = llama_cpp.llama_get_memory(self._context)
        if memory:
            llama_cpp.llama_memory_seq_cp(memory, source, target, -1, -1)
        self._lengths[target] = self._lengths[source]
        self.rollback(target, length)

    @property
    def fingerprint(self) -> str:
        return self._identify()

    def state_size(self, sequence: int) -> int:
        self._require_open()
        return llama_state.state_size(self._context, sequence)

    def save(self, sequence: int) -> bytes:
        self._require_open()
        return llama_state.read_state(self._context, sequence)

    def restore(self, sequence: int, length: int, state: bytes) -> None:
        self._require_open()
        check_empty(sequence, self._lengths[sequence])
        self._write(sequence, length, state, llama_state.WHOLE)

    def checkpoint(self, sequence: int) -> bytes:
        self._require_open()
        return llama_state.read_state(self._context, sequence, llama_state.PART)

    def go_back(self, sequence: int, length: int, checkpoint: bytes) -> None:
        self._require_open()
        check_shorter(sequence, self._lengths[sequence], length)
        self._write(sequence, length, checkpoint, llama_state.PART)

    def _write(self, sequence: int, length: int, state: bytes, flags: int) -> None:
        try:
            llama_state.write_state(
                self._context, sequence, length=length, state=state, flags=flags
            )
        except ModelError:
            self.release(sequence)
            raise
        self._lengths[sequence] = length

    def release(self, sequence: int) -> None:
        self._require_open()
        self._cut(sequence, 0)  # removing a whole sequence never fails (llama.h)

    def _require_open(self) -> None:
        if not self._free.alive:
            raise ModelError("the model is closed")
