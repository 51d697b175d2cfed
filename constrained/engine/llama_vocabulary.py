"""The vocabulary of a model in llama.cpp.

Source: the tokenizer section of a GGUF file, as llama.cpp reads it.
"""

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import cast

import llama_cpp

from constrained.errors import ModelError
from constrained.vocabulary.exact_spelling import Continuation, Encoder
from constrained.vocabulary.vocabulary import FillInTokens, Vocabulary

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
LONGEST_WORD = 4096  # bytes without white space, or of white space
LONGEST_NUMBER = 120  # digits
_LONG_RUNS = (
    (re.compile(rb"[^ \t\r\n]{%d,}" % (LONGEST_WORD + 1)), LONGEST_WORD),
    (re.compile(rb"[ \t\r\n]{%d,}" % (LONGEST_WORD + 1)), LONGEST_WORD),
    (re.compile(rb"[0-9]{%d,}" % (LONGEST_NUMBER + 1)), LONGEST_NUMBER),
)


def read_vocabulary(
    model: llama_cpp.llama_model_p, is_open: Callable[[], bool] = lambda: True
) -> Vocabulary:
    """Reads the vocabulary of a model that llama.cpp has loaded (0.3 s for 152,000 tokens).

    Args:
        model: llama.cpp's pointer; the vocabulary's `encode` uses it later.
        is_open: tells if the pointer is still valid; if not, `encode` raises ModelError.

    Raises:
        ModelError: the model has no vocabulary, one that cannot write text, or no end token.
    """
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
    never = frozenset(control.union(padding, end))
    return Vocabulary(
        tokens=tuple(tokens),
        names=names,
        control=frozenset(control),
        end=end,
        encode=Encoder(tokenizer, raw, names, never=never),
        encode_special=_SpecialEncoder(tokenizer, raw),
        bos=_find_bos(vocab),
        fill_in=_find_fill_in_tokens(vocab),
    )


def _read_tokens(vocab: llama_cpp.llama_vocab_p) -> list[bytes]:
    room = ctypes.create_string_buffer(MAX_BYTES)
    tokens: list[bytes] = []
    for token in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        # 0: no space is stripped; True: special tokens are written as their text.
        size = llama_cpp.llama_token_to_piece(vocab, token, room, MAX_BYTES, 0, True)
        if size < 0:  # llama.cpp's way to say that it needs more room
            raise ModelError(f"token {token} of the model has {-size} bytes; limit: {MAX_BYTES}")
        tokens.append(ctypes.string_at(room, size))
    return tokens


def _find_bos(vocab: llama_cpp.llama_vocab_p) -> int | None:
    """The token that a prompt begins with, if the model wants one."""
    bos = cast(int, llama_cpp.llama_vocab_bos(vocab))
    if bos < 0 or not llama_cpp.llama_vocab_get_add_bos(vocab):
        return None
    return bos


def _find_fill_in_tokens(vocab: llama_cpp.llama_vocab_p) -> FillInTokens | None:
    ids = list[int | None]()
    for find in (
        llama_cpp.llama_vocab_fim_pre,
        llama_cpp.llama_vocab_fim_suf,
        llama_cpp.llama_vocab_fim_mid,
        llama_cpp.llama_vocab_fim_rep,
        llama_cpp.llama_vocab_fim_sep,
    ):
        token = cast(int, find(vocab))
        ids.append(None if token < 0 else token)
    prefix, suffix, middle, repository, file = ids
    if prefix is None or suffix is None or middle is None:
        return None
    return FillInTokens(prefix, suffix, middle, repository=repository, file=file)


def _find_end_tokens(vocab: llama_cpp.llama_vocab_p, n_vocab: int) -> tuple[int, ...]:
    # Several: the end of a text, and the ends of turns that llama.cpp knows by their text.
    end = [token for token in range(n_vocab) if llama_cpp.llama_vocab_is_eog(vocab, token)]
    if not end:
        raise ModelError(
            "the model has no end-of-generation token",
            hint="Set tokenizer.ggml.eos_token_id in the GGUF (gguf-py has gguf_set_metadata.py)",
        )
    eos = llama_cpp.llama_vocab_eos(vocab)
    return tuple(sorted(end, key=lambda token: (token != eos, token)))


class LlamaTokenizer:
    """llama.cpp's tokenizer; it adds no tokens around a text.

    For many a vocabulary it splits texts by `std::regex`, which takes a stack frame for each
    character of a word, and ends the process where there is no more stack (at some 30,000 letters).
    Those that group digits take the square of their number, too. So longer words are cut.

    Args:
        vocab: llama.cpp's pointer.
        is_open: tells if the pointer is still valid; if not, a call raises ModelError.
        names: the texts of tokens that are never cut.
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
        room = 2 * len(data) + 8  # every token has a byte, and may have a space of its own
        ids = (llama_cpp.llama_token * room)()
        # False: no BOS, which begins a prompt, not each text.
        size = llama_cpp.llama_tokenize(self._vocab, data, len(data), ids, room, False, special)
        if size < 0:
            raise ModelError("llama.cpp cannot tokenise the text")
        return ids[:size]


def cut_words(data: bytes, names: re.Pattern[bytes]) -> Iterator[bytes]:
    """A text in parts, cut where a word, white space or a number is longer than it may be; never
    inside of a character, or of the name of a token. The cuts of a text are also those of any that
    goes on."""
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


class _SpecialEncoder:
    def __init__(self, tokenize: LlamaTokenizer, tokens: Sequence[bytes]):
        self._tokenize = partial(tokenize, special=True)
        self._continue = Continuation(self._tokenize, tokens)

    def __call__(self, text: str, *, inside: bool = False) -> list[int]:
        if inside:
            return self._continue(text.encode())
        return self._tokenize(text.encode())
