"""The vocabulary of a model in llama.cpp.

Source: the tokenizer section of a GGUF file, as llama.cpp reads it.
"""

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import llama_cpp

from constrained.errors import ModelError
from constrained.vocabulary.exact_spelling import Continuation, Encoder
from constrained.vocabulary.vocabulary import Vocabulary

SPECIAL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
NAMED = SPECIAL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
# Rows that only fill up the embedding matrix. Converters give them any type, text included.
PAD = re.compile(rb"\[PAD\d+\]")
# Vocabularies of encoders (BERT, T5): they change white space, so nothing exact can be written.
LOSSY_KINDS = (
    llama_cpp.LLAMA_VOCAB_TYPE_NONE,
    llama_cpp.LLAMA_VOCAB_TYPE_WPM,
    llama_cpp.LLAMA_VOCAB_TYPE_UGM,
)
MAX_BYTES = 4096  # bytes; the longest token known has 1,024


def read_vocabulary(
    model: llama_cpp.llama_model_p, is_open: Callable[[], bool] = lambda: True
) -> Vocabulary:
    """Reads the vocabulary of a model that llama.cpp has loaded (0.3 s for 152,000 tokens).

    Args:
        model: llama.cpp's pointer; the vocabulary's `encode` uses it later.
        is_open: whether the pointer is still valid; if not, `encode` raises ModelError.

    Raises:
        ModelError: the model has no vocabulary, one that cannot write text, or no end token.
    """
    vocab = llama_cpp.llama_model_get_vocab(model)
    if not vocab or llama_cpp.llama_vocab_type(vocab) in LOSSY_KINDS:
        raise ModelError(
            "the vocabulary of the model cannot write text exactly",
            hint="Models that only embed or translate (BERT, T5) are not supported",
        )
    tokens = _tokens(vocab)
    kinds = [llama_cpp.llama_vocab_get_attr(vocab, token) for token in range(len(tokens))]
    padding = [token for token, data in enumerate(tokens) if PAD.fullmatch(data)]
    named = [t for t, kind in enumerate(kinds) if kind & NAMED and not PAD.fullmatch(tokens[t])]
    names = {t: tokens[t].decode("utf-8", "replace") for t in named}
    control = frozenset(t for t in named if kinds[t] & SPECIAL)
    end = _end_tokens(vocab, len(tokens))
    tokenizer = _LlamaTokenizer(vocab, is_open)
    bos = cast(int, llama_cpp.llama_vocab_bos(vocab))
    return Vocabulary(
        tokens=tuple(b"" if PAD.fullmatch(data) else data for data in tokens),
        names=names,
        control=control,
        end=end,
        encode=Encoder(tokenizer, tokens, names, never=control.union(padding, end)),
        encode_special=_SpecialEncoder(tokenizer, tokens),
        bos=bos if bos >= 0 and llama_cpp.llama_vocab_get_add_bos(vocab) else None,
    )


def _tokens(vocab: llama_cpp.llama_vocab_p) -> list[bytes]:
    room = ctypes.create_string_buffer(MAX_BYTES)
    tokens: list[bytes] = []
    for token in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        size = llama_cpp.llama_token_to_piece(vocab, token, room, MAX_BYTES, 0, True)
        if size < 0:
            raise ModelError(f"token {token} of the model has {-size} bytes; limit: {MAX_BYTES}")
        tokens.append(ctypes.string_at(room, size))
    return tokens


def _end_tokens(vocab: llama_cpp.llama_vocab_p, n_vocab: int) -> tuple[int, ...]:
    end = [token for token in range(n_vocab) if llama_cpp.llama_vocab_is_eog(vocab, token)]
    if not end:
        raise ModelError(
            "the model has no end-of-generation token",
            hint="Set tokenizer.ggml.eos_token_id in the GGUF (gguf-py has gguf_set_metadata.py)",
        )
    eos = llama_cpp.llama_vocab_eos(vocab)
    return tuple(sorted(end, key=lambda token: (token != eos, token)))


class _LlamaTokenizer:
    def __init__(self, vocab: llama_cpp.llama_vocab_p, is_open: Callable[[], bool]):
        self._vocab = vocab
        self._is_open = is_open

    def __call__(self, data: bytes, special: bool = False) -> list[int]:
        if not self._is_open():
            raise ModelError("the model is closed")
        room = 2 * len(data) + 8  # every token has a byte, and may have a space of its own
        ids = (llama_cpp.llama_token * room)()
        size = llama_cpp.llama_tokenize(self._vocab, data, len(data), ids, room, False, special)
        if size < 0:
            raise ModelError("llama.cpp cannot tokenise the text")
        return ids[:size]


class _SpecialEncoder:
    def __init__(self, tokenize: _LlamaTokenizer, tokens: Sequence[bytes]):
        self._tokenize = partial(tokenize, special=True)
        self._continue = Continuation(self._tokenize, tokens)

    def __call__(self, text: str, *, inside: bool = False) -> list[int]:
        return (self._continue if inside else self._tokenize)(text.encode())
