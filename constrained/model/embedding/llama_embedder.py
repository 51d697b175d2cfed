"""An embedding model in llama.cpp: batches of texts in, a vector of each out."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import llama_cpp
import numpy as np

from constrained.engine.gguf.contents import NO_POOLING, POOLINGS, RANK
from constrained.engine.host import check_gguf
from constrained.engine.llama_files import (
    CONTEXT_MEMORY,
    errors,
    load_model,
    make_failure,
)
from constrained.engine.llama_params import context_params
from constrained.engine.llama_vocabulary import LlamaTokenizer
from constrained.engine.options import EngineOptions
from constrained.engine.probe import probe_file
from constrained.errors import ContextError, ModelError

Pooling = Literal["mean", "cls", "last"]
"""How the vectors of the tokens are combined: their mean, the first one, or the last one."""
DEFAULT_CONTEXT_LENGTH = 2048
"""The default maximum of tokens in a text. A text is computed at once, so memory for the longest
text is taken when the model is loaded."""


class Embedder:
    """A GGUF file that llama.cpp computes vectors with. Not for several threads at once.

    Args:
        path: the file.
        pooling: replaces the value in the file; None: that.
        options: of llama.cpp.
        max_batch_texts: texts of a batch.
        progress: takes the part done, 0 to 1, while the file is read.

    Attributes:
        context_length: tokens that a text may have.
        dimensions: of a vector.
        vocabulary_size: how many tokens there are.
        front: the tokens that the model needs before a text.
        back: the tokens that the model needs after a text.

    Raises:
        ModelError: the file is missing, damaged or not supported, or makes no vectors of texts.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        pooling: Pooling | None,
        options: EngineOptions,
        max_batch_texts: int,
        progress: Callable[[float], None] | None,
    ):
        path = Path(path)
        check_gguf(path)
        probe_file(path)
        self._model: Any = load_model(path, options, progress)
        self._context: Any = None
        try:
            trained = llama_cpp.llama_model_n_ctx_train(self._model)
            asked = options.context_length
            if asked is None:
                asked = DEFAULT_CONTEXT_LENGTH
            self.context_length = min(trained, asked or trained)  # 0: as trained
            self._context = self._create(options, pooling, max_batch_texts)
            self._check_pooling(path)
        except BaseException:
            self.close()
            raise
        self._vocabulary: Any = llama_cpp.llama_model_get_vocab(self._model)
        self.vocabulary_size = llama_cpp.llama_vocab_n_tokens(self._vocabulary)
        self._tokenize = LlamaTokenizer(
            self._vocabulary, lambda: self._context is not None, names=()
        )
        self.front, self.back = self._find_frame()
        self._memory = llama_cpp.llama_get_memory(self._context)
        self.dimensions = llama_cpp.llama_model_n_embd_out(self._model)

    def _create(self, options: EngineOptions, pooling: Pooling | None, max_batch_texts: int) -> Any:
        params = context_params(options)
        params.embeddings = True
        if pooling is not None:
            params.pooling_type = POOLINGS[pooling]
        # All tokens of a text have to be in one micro-batch: only then do they see each other in a
        # model that reads both ways, and only then are they pooled together.
        params.n_ctx = params.n_batch = params.n_ubatch = self.context_length
        params.n_outputs_max = self.context_length
        params.n_seq_max = max_batch_texts
        params.kv_unified = True
        errors.clear()
        context = llama_cpp.llama_init_from_model(self._model, params)
        if not context:
            what = f"no context of {self.context_length} tokens for embeddings"
            raise make_failure(what, CONTEXT_MEMORY)
        return context

    def _check_pooling(self, path: Path) -> None:
        pooling = llama_cpp.llama_pooling_type(self._context)
        if pooling == NO_POOLING:
            raise ModelError(
                f"{path} does not state how the vectors of tokens become one of the text",
                hint="Use a model that was made for embeddings, or state it: mean, cls or last "
                "(pooling=, --pooling)",
            )
        if pooling == RANK:
            hint = "Use a model that was made for embeddings"
            raise ModelError(
                f"{path} ranks pairs of texts, and does not compute vectors", hint=hint
            )

    def tokenize(self, text: str) -> list[int]:
        """Returns the tokens of a text, without those around it. Names of special tokens in the
        text are ordinary text.

        Raises:
            UnicodeEncodeError: it has a lone surrogate.
            ModelError: the model is closed.
        """
        return self._tokenize(text.encode())

    def _find_frame(self) -> tuple[list[int], list[int]]:
        """Finds the tokens that the model needs before and after a text."""
        inner = self._tokenize(b"a")
        room: Any = (llama_cpp.llama_token * (len(inner) + 8))()
        count = llama_cpp.llama_tokenize(self._vocabulary, b"a", 1, room, len(room), True, False)
        whole = list(room[:count])
        for start in range(len(whole) - len(inner) + 1):
            if whole[start : start + len(inner)] == inner:
                return whole[:start], whole[start + len(inner) :]
        return [], []

    def embed(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns the vectors of some texts, as the model gives them.

        Args:
            texts: their tokens: at most `max_batch_texts`, with `context_length` tokens in all.

        Returns:
            float32, a row of each text.

        Raises:
            ContextError: llama.cpp cannot decode them.
            ModelError: the model is closed.
        """
        if self._context is None:
            raise ModelError("the model is closed")
        if self._memory:
            llama_cpp.llama_memory_clear(self._memory, False)
        batch = llama_cpp.llama_batch_init(sum(map(len, texts)), 0, 1)
        try:
            for number, text in enumerate(texts):
                _append(batch, text, number)
            # A bidirectional model has no KV cache.
            compute = llama_cpp.llama_decode if self._memory else llama_cpp.llama_encode
            status = compute(self._context, batch)
        finally:
            llama_cpp.llama_batch_free(batch)
        if status != 0:
            raise ContextError(f"llama.cpp cannot read the texts (status {status})")
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for number in range(len(texts)):
            row: Any = llama_cpp.llama_get_embeddings_seq(self._context, number)
            vectors[number] = np.ctypeslib.as_array(row, (self.dimensions,))
        return vectors

    def close(self) -> None:
        """Frees the model."""
        if self._context:
            llama_cpp.llama_free(self._context)
        if self._model:
            llama_cpp.llama_model_free(self._model)
        self._context = self._model = None


def _append(batch: Any, text: Sequence[int], sequence: int) -> None:
    """Adds the tokens of a text to a batch; each is an output, for all are pooled."""
    for position, token in enumerate(text):
        place = batch.n_tokens
        batch.token[place] = token
        batch.pos[place] = position
        batch.n_seq_id[place] = 1
        batch.seq_id[place][0] = sequence
        batch.logits[place] = 1
        batch.n_tokens = place + 1
