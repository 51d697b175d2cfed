"""What a model's tokens stand for, and how text becomes tokens.

Source: the tokenizer section of a GGUF file, as llama.cpp reads it.
"""

import ctypes
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, TypeAlias, cast

import llama_cpp
import llguidance

from constrained.errors import GrammarError, ModelError
from constrained.spelling import Continuation, Encoder

Tokenizer: TypeAlias = llguidance.LLTokenizer
"""What grammars are compiled against."""

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


class Encode(Protocol):
    def __call__(self, text: str, markers: Collection[str] | None = None) -> list[int]:
        """Returns tokens that spell `text` exactly, none of them a control or end token.

        Args:
            text: any text; the name of a special token in it is spelled with ordinary tokens.
            markers: the names of USER_DEFINED tokens to spell out too; the others are text. None
                spells out all but white space and single characters, which are always text.

        Raises:
            ModelError: the vocabulary has no token for a byte of it, or the model is closed.
            UnicodeEncodeError: `text` has a lone surrogate.
        """
        ...


class EncodeSpecial(Protocol):
    def __call__(self, text: str, *, inside: bool = False) -> list[int]:
        """Returns the tokens of a prompt or a part of it, names of special tokens recognised.

        No BOS is added, but what llama.cpp adds otherwise: SentencePiece puts a space before a
        text, and before each text that follows a special token.

        Args:
            text: any text.
            inside: it continues other text, so that no space goes before it.

        Raises:
            ModelError: the model is closed.
            UnicodeEncodeError: `text` has a lone surrogate.
        """
        ...


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens of a model, by id."""

    tokens: tuple[bytes, ...]
    """The bytes that each token stands for in text; b"" for padding and unused ones."""
    names: Mapping[int, str]
    """The text of every token that is CONTROL, UNKNOWN or USER_DEFINED."""
    control: frozenset[int]
    """The CONTROL and UNKNOWN ones."""
    end: tuple[int, ...]
    """All end-of-generation tokens, the GGUF's EOS first."""
    encode: Encode
    encode_special: EncodeSpecial
    bos: int | None
    """What a prompt starts with, if the GGUF asks for it (`add_bos_token`)."""

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {name: token for token, name in sorted(self.names.items(), reverse=True)}

    def marker(self, text: str) -> int | None:
        """Returns the token whose name is exactly `text`, or None if that is not one token."""
        return self._ids.get(text)

    def text(self, tokens: Iterable[int]) -> bytes:
        """Returns the bytes that `tokens` stand for, special ones by their name."""
        return b"".join([self.tokens[token] for token in tokens])


def byte_vocabulary(markers: Sequence[str] = ()) -> Vocabulary:
    """A vocabulary without a model: the 256 bytes by value, `</s>` as the end, the markers."""
    named = tuple(dict.fromkeys(["</s>", *markers]))
    names = dict(enumerate(named, start=256))
    ids = {name: token for token, name in names.items()}
    split = re.compile("|".join(re.escape(name) for name in sorted(named, key=len, reverse=True)))

    def encode(text: str, markers: Collection[str] | None = None) -> list[int]:
        return list(text.encode())

    def encode_special(text: str, *, inside: bool = False) -> list[int]:
        parts = re.split(f"({split.pattern})", text)
        return [t for part in parts for t in ([ids[part]] if part in ids else encode(part))]

    single = [bytes([byte]) for byte in range(256)]
    return Vocabulary(
        tokens=(*single, *(name.encode() for name in named)),
        names=names,
        control=frozenset({256}),
        end=(256,),
        encode=encode,
        encode_special=encode_special,
        bos=None,
    )


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
        encode=Encoder(tokenizer, tokens, names, control.union(padding, end)),
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


class _GrammarTokenizer:
    """What llguidance asks for: see `llguidance.TokenizerWrapper`."""

    is_tokenizer_wrapper = True

    def __init__(self, vocabulary: Vocabulary, markers: Collection[str], special: Container[int]):
        self.tokens = list(vocabulary.tokens)
        self.special_token_ids = [t for t in range(len(self.tokens)) if t in special]
        self.eos_token_id = vocabulary.end[0]
        self.bos_token_id = vocabulary.bos
        self._encode = vocabulary.encode
        self._markers = frozenset(markers)

    def __call__(self, text: str | bytes) -> list[int]:
        try:
            return self._encode(text if isinstance(text, str) else text.decode(), self._markers)
        except (UnicodeDecodeError, ModelError):
            return []  # An exception would be a panic in there. No tokens: nothing is forced.


def build_tokenizer(vocabulary: Vocabulary, markers: Collection[str]) -> Tokenizer:
    """Builds what grammars are compiled against (0.5 s for 152,000 tokens): once per format.

    Args:
        vocabulary: the model's tokens.
        markers: the texts that the format treats as units. Those that are one token here become
            special (a grammar names them `<[id]>`, text never contains them) and stop being ends
            of generation; the others, and further USER_DEFINED tokens, are text.

    Raises:
        GrammarError: the markers leave no end-of-generation token.
    """
    own = {token for text in markers if (token := vocabulary.marker(text)) is not None}
    end = [token for token in vocabulary.end if token not in own]
    if not end:
        raise GrammarError("every end-of-generation token is a marker of the format")
    special = vocabulary.control | own | set(vocabulary.end)
    wrapper: Any = _GrammarTokenizer(vocabulary, markers, special)
    return llguidance.LLTokenizer(wrapper, eos_token=end)
