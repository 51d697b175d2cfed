"""llama.cpp's own reading of GBNF, over the vocabulary of a file."""

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp

from tests.grammars.emit.engine_reading import EngineReading


class GbnfEngine:
    """The grammar samplers of llama.cpp.

    Args:
        path: a GGUF file, of which only the vocabulary is read.
    """

    def __init__(self, path: Path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        assert model, path
        self._model = model
        self._vocab: Any = llama_cpp.llama_model_get_vocab(model)
        self._end = int(llama_cpp.llama_vocab_eos(self._vocab))

    def close(self) -> None:
        """Frees the model."""
        llama_cpp.llama_model_free(self._model)

    @contextmanager
    def reading(self, grammar: str) -> Iterator[EngineReading]:
        """A turn in this grammar.

        Raises:
            ValueError: llama.cpp refuses it.
        """
        sampler = llama_cpp.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
        if not sampler:
            raise ValueError("llama.cpp refuses the grammar")
        try:
            yield _GbnfReading(sampler, self._end)
        finally:
            llama_cpp.llama_sampler_free(sampler)


class _GbnfReading(EngineReading):
    def __init__(self, sampler: Any, end: int):
        self._sampler = sampler
        self._end = end

    def allowed(self, tokens: Sequence[int]) -> list[int]:
        data = (llama_cpp.llama_token_data * len(tokens))()
        for entry, token in zip(data, tokens, strict=True):
            entry.id, entry.logit = token, 0.0
        array = llama_cpp.llama_token_data_array(data, len(tokens), -1, False)
        pointer: Any = ctypes.byref(array)
        llama_cpp.llama_sampler_apply(self._sampler, pointer)
        return [entry.id for entry in data if not math.isinf(entry.logit)]

    def commit(self, token: int) -> None:
        # A token that is not allowed would end the process.
        llama_cpp.llama_sampler_accept(self._sampler, token)

    def reset(self) -> None:
        llama_cpp.llama_sampler_reset(self._sampler)

    @property
    def may_end(self) -> bool:
        return bool(self.allowed([self._end]))
