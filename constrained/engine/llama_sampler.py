"""llama.cpp's sampler chain, and batches that it decodes."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

import llama_cpp
import numpy as np

from constrained.engine.protocol import Sampling
from constrained.errors import ModelError


class Batch:
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


class ChainSampler:
    """llama.cpp's sampler chain, in llama-server's order.

    Args:
        sampling: how tokens are drawn.
        draw: draws with a chain from a row of the logits.
        n_vocab: how many tokens there are.
        context_length: in tokens.

    Raises:
        RequestError: there is no such token as one with a bias.
    """

    def __init__(
        self, sampling: Sampling, draw: Callable[[Any, int], int], n_vocab: int, context_length: int
    ):
        sampling.check_tokens(n_vocab)
        chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        self._chain = chain
        self._draw = draw
        self._free = weakref.finalize(self, llama_cpp.llama_sampler_free, chain)
        self._last = sampling.count_last(context_length)
        self._penalties = _make_penalties(sampling, n_vocab, self._last)
        stages = [_make_bias(sampling, n_vocab), self._penalties, *_make_draw(sampling, n_vocab)]
        for stage in stages:
            if stage is not None:
                llama_cpp.llama_sampler_chain_add(chain, stage)

    def sample(self, slot: int) -> int:
        self._require_open()
        return self._draw(self._chain, slot)

    def accept(self, token: int) -> None:
        self._require_open()
        llama_cpp.llama_sampler_accept(self._chain, token)

    def recall(self, tokens: Sequence[int]) -> None:
        self._require_open()
        if self._penalties is None:
            return
        # That stage alone: the one that draws goes on with its random numbers.
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
    amounts = sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty
    return llama_cpp.llama_sampler_init_penalties(n_vocab, last, *amounts)


def _make_draw(sampling: Sampling, n_vocab: int) -> list[Any]:
    if sampling.is_greedy:
        return [llama_cpp.llama_sampler_init_greedy()]
    return [
        llama_cpp.llama_sampler_init_top_k(min(sampling.top_k, n_vocab)),
        llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1),
        llama_cpp.llama_sampler_init_min_p(sampling.min_p, 1),
        llama_cpp.llama_sampler_init_temp(sampling.temperature),
        llama_cpp.llama_sampler_init_dist(sampling.some_seed()),
    ]
