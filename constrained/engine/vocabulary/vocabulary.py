"""The vocabulary of a model: the bytes and names of its tokens, and how text becomes tokens."""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import llguidance
import numpy as np

from constrained.errors import GrammarError, ModelError

Tokenizer: TypeAlias = llguidance.LLTokenizer
"""The tokenizer that llguidance compiles grammars against."""


class Encode(Protocol):
    def __call__(self, text: str, markers: Collection[str] | None = None) -> list[int]:
        """Returns tokens that spell `text` exactly, none of them a control or end token. `markers`:
        the names of USER_DEFINED tokens to spell out too; the others are text. None spells out all
        but white space and single characters, which are always text. ModelError: there is no token
        for a byte of it, or the model is closed; UnicodeEncodeError: it has a lone surrogate."""
        ...


class EncodeSpecial(Protocol):
    def __call__(self, text: str, *, inside: bool = False) -> list[int]:
        """Returns the tokens of a prompt or a part of it. Names of special tokens become these
        tokens. No BOS is added, but what llama.cpp adds otherwise: SentencePiece puts a space
        before a text, and before each text that follows a special token, unless it is `inside`: it
        continues other text. ModelError: the model is closed; UnicodeEncodeError: `text` has a lone
        surrogate."""
        ...


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens of a model, by id."""

    tokens: tuple[bytes, ...]
    """The bytes of each token in text; b"" for padding and unused ones."""
    names: Mapping[int, str]
    """The text of every token that is CONTROL, UNKNOWN or USER_DEFINED."""
    control: frozenset[int]
    """The CONTROL and UNKNOWN ones."""
    end: tuple[int, ...]
    """All end-of-generation tokens, the GGUF's EOS first."""
    encode: Encode
    encode_special: EncodeSpecial
    bos: int | None
    """The first token of each prompt, if the GGUF asks for one (`add_bos_token`)."""

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the tokens: vocabularies with the same fingerprint have the same ids."""
        digest = hashlib.blake2b(digest_size=16)
        for token in self.tokens:
            digest.update(len(token).to_bytes(4) + token)
        special = (sorted(self.names.items()), sorted(self.control), self.end, self.bos)
        digest.update(repr(special).encode())
        return digest.hexdigest()

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {name: token for token, name in sorted(self.names.items(), reverse=True)}

    def marker(self, text: str) -> int | None:
        """Returns the token whose name is exactly `text`, or None if that is not one token."""
        return self._ids.get(text)

    def find_markers(self, texts: Iterable[str]) -> dict[str, int]:
        """Returns the special tokens whose names are in these texts, as a prompt with these texts
        would be tokenised. Words and white space are no names."""
        joined = "\0".join(texts)
        found: dict[str, int] = {}
        for name, token in self._ids.items():
            is_word = name[:1].isalnum() or name[-1:].isalnum()
            if token in self.named and not is_word and name in joined:
                found[name] = token
        return found

    def encode_marked(self, text: str, markers: Mapping[str, int]) -> list[int]:
        """Returns tokens that spell `text`; what spells one of `markers` is that token."""
        tokens: list[int] = []
        for part in _split_at(text, markers):
            if part in markers:
                tokens.append(markers[part])
            elif part:
                tokens += self.encode(part, markers)
        return tokens

    @cached_property
    def _sorted(self) -> tuple[list[bytes], list[int]]:
        """The texts of tokens, sorted, and the ids of these tokens; a token without text has its
        name."""
        pairs: list[tuple[bytes, int]] = []
        for token, text in enumerate(self.tokens):
            spelled = text or self.names.get(token, "").encode(errors="surrogatepass")
            if spelled:
                pairs.append((spelled, token))
        pairs.sort()
        return [text for text, _ in pairs], [token for _, token in pairs]

    def find_along(self, text: bytes, *, least: int = 1) -> list[int]:
        """Returns the tokens that a text may begin with: those that spell its beginning, or all of
        it and more, in `least` bytes or more."""
        texts, ids = self._sorted
        found: list[int] = []
        for size in range(least, len(text)):
            first = bisect_left(texts, text[:size])
            while first < len(texts) and texts[first] == text[:size]:
                found.append(ids[first])
                first += 1
        first = bisect_left(texts, text)
        while first < len(texts) and texts[first].startswith(text):
            found.append(ids[first])
            first += 1
        return found

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest token or name of a token."""
        longest = max(map(len, self.tokens))
        for name in self.names.values():
            longest = max(longest, len(name.encode(errors="surrogatepass")))
        return longest

    @cached_property
    def named(self) -> Mapping[int, str]:
        """The names that are more than white space and one character, which are always text."""
        return {token: name for token, name in self.names.items() if len(name.strip()) > 1}

    @cached_property
    def structural(self) -> frozenset[int]:
        """The tokens that are no ordinary text: control and end tokens, and those with a name."""
        return self.control.union(self.end, self.named)

    @cached_property
    def _ordinary(self) -> Sequence[bytes]:
        ordinary: list[bytes] = []
        for token, data in enumerate(self.tokens):
            if token not in self.structural:
                ordinary.append(data)
        return sorted(ordinary)

    def begins_token(self, data: bytes) -> bool:
        """Returns whether a token of ordinary text is these bytes, or begins with them."""
        place = bisect_left(self._ordinary, data)
        return place < len(self._ordinary) and self._ordinary[place].startswith(data)

    @cached_property
    def continuations(self) -> np.ndarray:
        """Booleans by id: the token is one byte that continues a UTF-8 character."""
        return np.fromiter(map(_is_continuation, self.tokens), bool)

    @cached_property
    def beginnings(self) -> np.ndarray:
        """Booleans by id: the token begins a UTF-8 character that it does not finish."""
        return np.fromiter(map(ends_inside, self.tokens), bool)

    def text(self, tokens: Iterable[int]) -> bytes:
        """Returns the bytes of `tokens`; special tokens have the bytes of their names."""
        return b"".join(map(self.tokens.__getitem__, tokens))


def _split_at(text: str, names: Iterable[str]) -> list[str]:
    """Splits the text at these names, which become separate parts; the longest name wins."""
    longest_first = sorted(names, key=len, reverse=True)
    expression = "|".join(map(re.escape, longest_first)) or "(?!)"  # which matches nothing
    return re.split(f"({expression})", text)


def _is_continuation(token: bytes) -> bool:
    return len(token) == 1 and 0x80 <= token[0] < 0xC0


def ends_inside(text: bytes) -> bool:
    """Returns whether the text ends inside a UTF-8 character whose first byte it has."""
    for size in range(1, min(3, len(text)) + 1):  # bytes of the last character that are there
        byte = text[-size]
        if byte < 0x80:
            return False
        if byte >= 0xF0:  # the first of four
            return True
        if byte >= 0xE0:  # the first of three
            return size < 3
        if byte >= 0xC0:  # the first of two
            return size < 2
    return False


def byte_vocabulary(markers: Sequence[str] = ()) -> Vocabulary:
    """Returns a vocabulary without a model: the 256 bytes by value, `</s>` as the end, the
    markers."""
    named = tuple(dict.fromkeys(["</s>", *markers]))
    names = dict(enumerate(named, start=256))
    ids = {name: token for token, name in names.items()}

    def encode(text: str, markers: Collection[str] | None = None) -> list[int]:
        return list(text.encode())

    def encode_special(text: str, *, inside: bool = False) -> list[int]:
        tokens: list[int] = []
        for part in _split_at(text, named):
            if part in ids:
                tokens.append(ids[part])
            else:
                tokens += encode(part)
        return tokens

    single = [bytes([byte]) for byte in range(256)]
    return Vocabulary(
        tokens=(*single, *map(str.encode, named)),
        names=names,
        control=frozenset({256}),
        end=(256,),
        encode=encode,
        encode_special=encode_special,
        bos=None,
    )


class _GrammarTokenizer:
    """The attributes that llguidance reads of a tokenizer: see `llguidance.TokenizerWrapper`."""

    is_tokenizer_wrapper = True

    def __init__(self, vocabulary: Vocabulary, markers: Collection[str], special: Iterable[int]):
        self.tokens = list(vocabulary.tokens)
        self.special_token_ids = sorted(special)
        self.eos_token_id = vocabulary.end[0]
        self.bos_token_id = vocabulary.bos
        self._encode = vocabulary.encode
        self._markers = frozenset(markers)

    def __call__(self, text: str | bytes) -> list[int]:
        try:
            if isinstance(text, bytes):
                text = text.decode()
            return self._encode(text, self._markers)
        except (UnicodeDecodeError, ModelError):
            # An exception would be a panic in llguidance. Without tokens it forces nothing.
            return []


def build_tokenizer(vocabulary: Vocabulary, markers: Collection[str]) -> Tokenizer:
    """Builds what grammars are compiled against (0.5 s for 152,000 tokens): once per format. The
    texts that it treats as units (`markers`) and that are one token here become special (a grammar
    names them `<[id]>`, text never contains them) and stop being ends of generation; the others,
    and further USER_DEFINED tokens, are text. GrammarError: that leaves no end-of-generation
    token."""
    own: set[int] = set()
    for text in markers:
        token = vocabulary.marker(text)
        if token is not None:
            own.add(token)
    end = [token for token in vocabulary.end if token not in own]
    if not end:
        raise GrammarError("every end-of-generation token is a marker of the format")
    special = vocabulary.control | own | set(vocabulary.end)
    wrapper: Any = _GrammarTokenizer(vocabulary, markers, special)
    return llguidance.LLTokenizer(wrapper, eos_token=end)
