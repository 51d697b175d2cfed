"""A model in llama.cpp through its C interface, without our own code between."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llama_cpp
import numpy as np


class Model:
    """A model in llama.cpp, through the C interface: only what the tests of models need."""

    def __init__(self, path: Path, vocab_only: bool):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = vocab_only
        # Without llama.cpp's code for AMX, which crashes when GCC 12 has compiled it.
        params.use_extra_bufts = False
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        assert model
        vocab = llama_cpp.llama_model_get_vocab(model)
        assert vocab
        self.model, self.vocab = model, vocab

    def tokenize(self, text: str, special: bool = True) -> list[int]:
        """Returns the ids; `special`: control tokens may be recognised in the text."""
        data = text.encode()
        room = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(
            self.vocab, data, len(data), room, len(room), True, special
        )
        assert count >= 0
        return list(room[:count])

    def piece(self, token: int, special: bool = True) -> bytes:
        """Returns the bytes of a token; without `special`, those of a control token are none."""
        room = ctypes.create_string_buffer(1024)
        count = llama_cpp.llama_token_to_piece(self.vocab, token, room, len(room), 0, special)
        assert count >= 0
        return room.raw[:count]

    def text(self, tokens: list[int]) -> str:
        """Returns the text of the tokens, control tokens included."""
        return b"".join(map(self.piece, tokens)).decode()

    def logits(self, tokens: list[int]) -> np.ndarray:
        """Decodes the tokens (256 at most) as one batch; returns the logits after the last."""
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = 256
        context = llama_cpp.llama_init_from_model(self.model, params)
        assert context
        try:
            data = (llama_cpp.llama_token * len(tokens))(*tokens)
            batch = llama_cpp.llama_batch_get_one(data, len(data))
            assert llama_cpp.llama_decode(context, batch) == 0
            n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)
            row = llama_cpp.llama_get_logits_ith(context, -1)
            return np.ctypeslib.as_array(row, shape=(n_vocab,)).copy()
        finally:
            llama_cpp.llama_free(context)


@contextmanager
def loaded(path: Path, vocab_only: bool = False) -> Iterator[Model]:
    """Loads a GGUF file (or, with `vocab_only`, its vocabulary), and frees it at the end."""
    llama_cpp.llama_backend_init()
    model = Model(path, vocab_only)
    try:
        yield model
    finally:
        llama_cpp.llama_model_free(model.model)
