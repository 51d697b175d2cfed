"""Reads the vocabulary of a model from llama.cpp, and tokenises text with it."""

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import cast

import llama_cpp

from constrained.engine.vocabulary.exact_spelling import Continuation, Encoder
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import ModelError

SPECIAL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
NAMED = SPECIAL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
# Unused tokens that fill up the embedding matrix. Converters give them any type, text included.
PAD = re.compile(rb"\[PAD\d+\]")
# Vocabularies of encoders (BERT, T5) change white space, so they cannot encode every text exactly.
LOSSY_KINDS = (
    llama_cpp.LLAMA_VOCAB_TYPE_NONE,
    llama_cpp.LLAMA_VOCAB_TYPE_WPM,
    llama_cpp.LLAMA_VOCAB_TYPE_UGM,
)
MAX_BYTES = 4096  # bytes; the longest token known has 1,024
MAX_WORD_LENGTH = 4096  # bytes without white space, or of white space
MAX_NUMBER_LENGTH = 120  # digits
_LONG_RUNS = (
    (re.compile(rb"[^ \t\r\n]{%d,}" % (MAX_WORD_LENGTH + 1)), MAX_WORD_LENGTH),
    (re.compile(rb"[ \t\r\n]{%d,}" % (MAX_WORD_LENGTH + 1)), MAX_WORD_LENGTH),
    (re.compile(rb"[0-9]{%d,}" % (MAX_NUMBER_LENGTH + 1)), MAX_NUMBER_LENGTH),
)


def read_vocabulary(
    model: llama_cpp.llama_model_p, is_open: Callable[[], bool] = lambda: True
) -> Vocabulary:
    """Reads the vocabulary of a model that llama.cpp has loaded (0.3 s for 152,000 tokens).
    `is_open`: whether the pointer is still valid; if not, `encode` raises ModelError. ModelError:
    it has no vocabulary, one that cannot encode every text, or no end token."""
    vocab = llama_cpp.llama_model_get_vocab(model)
    if not vocab or llama_cpp.llama_vocab_type(vocab) in LOSSY_KINDS:
        raise ModelError(
            "the vocabulary of the model cannot write text exactly",
            hint="Models that only embed or translate (BERT, T5) are not supported",
        )
    raw = _read_tokens(vocab)
    tokens = raw.copy()
    names: dict[int, str] = {}
    control: set[int] = set()
    padding: set[int] = set()
    for token, data in enumerate(raw):
        attributes = llama_cpp.llama_vocab_get_attr(vocab, token)
        if PAD.fullmatch(data):
            padding.add(token)
            tokens[token] = b""
        elif attributes & NAMED:
            names[token] = data.decode("utf-8", "replace")
            if attributes & SPECIAL:
                control.add(token)
    end = _find_end_tokens(vocab, len(tokens))
    tokenizer = LlamaTokenizer(vocab, is_open, names.values())
    tokenize_special = partial(tokenizer, special=True)
    go_on = Continuation(tokenize_special, raw)

    def encode_special(text: str, *, inside: bool = False) -> list[int]:
        return go_on(text.encode()) if inside else tokenize_special(text.encode())

    bos = cast(int, llama_cpp.llama_vocab_bos(vocab))
    never = frozenset(control.union(padding, end))
    return Vocabulary(
        tokens=tuple(tokens),
        names=names,
        control=frozenset(control),
        end=end,
        encode=Encoder(tokenizer, raw, names, never=never),
        encode_special=encode_special,
        bos=bos if bos >= 0 and llama_cpp.llama_vocab_get_add_bos(vocab) else None,
    )


def _read_tokens(vocab: llama_cpp.llama_vocab_p) -> list[bytes]:
    room = ctypes.create_string_buffer(MAX_BYTES)
    tokens: list[bytes] = []
    for token in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        # 0: no space is stripped; True: special tokens are written as their text.
        size = llama_cpp.llama_token_to_piece(vocab, token, room, MAX_BYTES, 0, True)
        if size < 0:  # llama.cpp needs a larger buffer
            raise ModelError(f"token {token} of the model has {-size} bytes; limit: {MAX_BYTES}")
        tokens.append(ctypes.string_at(room, size))
    return tokens


def _find_end_tokens(vocab: llama_cpp.llama_vocab_p, n_vocab: int) -> tuple[int, ...]:
    # There may be several: EOS, and end-of-turn tokens that llama.cpp knows by their text.
    end = [token for token in range(n_vocab) if llama_cpp.llama_vocab_is_eog(vocab, token)]
    if not end:
        raise ModelError(
            "the model has no end-of-generation token",
            hint="Set tokenizer.ggml.eos_token_id in the GGUF (gguf-py has gguf_set_metadata.py)",
        )
    eos = llama_cpp.llama_vocab_eos(vocab)
    return tuple(sorted(end, key=lambda token: (token != eos, token)))


class LlamaTokenizer:
    """llama.cpp's tokenizer, without BOS or EOS around the text. `is_open`: whether its pointer is
    still valid; `names`: the texts of tokens that are never cut.

    For many vocabularies, llama.cpp splits text with `std::regex`. That takes a stack frame for
    each character of a word, and ends the process when the stack is full (at about 30,000 letters).
    Expressions that group digits also take quadratic time. So long words are cut before.
    """

    def __init__(
        self, vocab: llama_cpp.llama_vocab_p, is_open: Callable[[], bool], names: Iterable[str]
    ):
        self._vocab = vocab
        self._is_open = is_open
        self._splits_words = llama_cpp.llama_vocab_type(vocab) == llama_cpp.LLAMA_VOCAB_TYPE_BPE
        spelled = sorted((name.encode() for name in names if name), key=len, reverse=True)
        self._names = re.compile(b"|".join(map(re.escape, spelled)) or b"(?!)")

    def __call__(self, data: bytes, special: bool = False) -> list[int]:
        if not self._is_open():
            raise ModelError("the model is closed")
        if not self._splits_words:
            return self._tokenize(data, special)
        ids = list[int]()
        for part in cut_words(data, self._names):
            ids += self._tokenize(part, special)
        return ids

    def _tokenize(self, data: bytes, special: bool) -> list[int]:
        room = 2 * len(data) + 8  # each byte is one token at most, perhaps with one for a space
        ids = (llama_cpp.llama_token * room)()
        # False: no BOS.
        size = llama_cpp.llama_tokenize(self._vocab, data, len(data), ids, room, False, special)
        if size < 0:
            raise ModelError("llama.cpp cannot tokenise the text")
        return ids[:size]


def cut_words(data: bytes, names: re.Pattern[bytes]) -> Iterator[bytes]:
    """Yields the parts of a text, cut inside words, white space and numbers that are too long,
    never inside a character or what matches `names`. If more text is appended, the cuts stay the
    same."""
    cuts = set[int]()
    for pattern, max_length in _LONG_RUNS:
        for run in pattern.finditer(data):
            cuts.update(_find_cuts(data, run.span(), max_length, names))
    begun = 0
    for cut in sorted(cuts):
        yield data[begun:cut]
        begun = cut
    yield data[begun:]


def _find_cuts(
    data: bytes, run: tuple[int, int], max_length: int, names: re.Pattern[bytes]
) -> Iterator[int]:
    start, end = run
    spared = [found.span() for found in names.finditer(data, start, end)]
    for cut in range(start + max_length, end, max_length):
        while data[cut] & 0xC0 == 0x80:  # inside of a character
            cut -= 1
        if not any(first < cut < last for first, last in spared):
            yield cut
