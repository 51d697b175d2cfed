"""Text as tokens that spell it exactly and are nothing but text.

A model's own tokenizer does not promise that: llama.cpp's finds USER_DEFINED tokens (`</think>`)
even if asked not to parse special ones, gives a control token where merges lead to its text
(`</s>` in Qwen's vocabulary), puts a space before a text (SentencePiece), and some change rare
characters. What a user wrote must not turn into a marker or an end of the turn.
"""

import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import cached_property

from constrained.errors import ModelError

# SentencePiece adds a space before a text. After this byte, which is never merged with others, it
# adds none.
GUARD = b"\x01"


class Speller:
    """Spells bytes with ordinary tokens, at each place the longest that fits."""

    def __init__(self, tokens: Sequence[bytes], special: Container[int]):
        self._tokens = tokens
        self._special = special

    @cached_property
    def _ids(self) -> Mapping[bytes, int]:
        # The last of equal ones: SentencePiece has its byte tokens before the characters.
        ids: dict[bytes, int] = {}
        for id, token in enumerate(self._tokens):
            if token and id not in self._special:
                ids[token] = id
        return ids

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._ids), default=1)

    def __call__(self, data: bytes) -> list[int]:
        """Returns the tokens; raises ModelError if there is none for a byte."""
        ids: list[int] = []
        at = 0
        while at < len(data):
            token = self._find_token(data[at : at + self._longest])
            ids.append(self._ids[token])
            at += len(token)
        return ids

    def _find_token(self, data: bytes) -> bytes:
        """Returns the longest token that the data begin with."""
        for size in range(len(data), 0, -1):
            if data[:size] in self._ids:
                return data[:size]
        raise ModelError(f"the vocabulary has no token for the byte 0x{data[0]:02x}")


class Continuation:
    """A model's tokenizer for text that continues other text: SentencePiece adds no space to it."""

    def __init__(self, tokenize: Callable[[bytes], list[int]], tokens: Sequence[bytes]):
        is_exact = _join(tokens, tokenize(b"a")) == b"a"
        self._tokenize = tokenize
        self._guard = b"" if is_exact else GUARD
        self._guard_size = len(tokenize(self._guard))

    def __call__(self, data: bytes) -> list[int]:
        return self._tokenize(self._guard + data)[self._guard_size :]


class Encoder:
    """Encodes text with a model's tokenizer, and spells out what that one gets wrong. `names`: the
    texts of tokens that may be markers; `never`: the ids that no text may become: control tokens,
    ends of generation, padding."""

    def __init__(
        self,
        tokenize: Callable[[bytes], list[int]],
        tokens: Sequence[bytes],
        names: Mapping[int, str],
        *,
        never: frozenset[int],
    ):
        self._tokenize = Continuation(tokenize, tokens)
        self._tokens = tokens
        self._never = never
        # White space and single characters are text in every vocabulary that has them.
        self._markers: dict[int, str] = {}
        for token, name in names.items():
            if len(name) > 1 and not name.isspace():
                self._markers[token] = name
        self._spell = Speller(tokens, never.union(names))
        self._avoided: dict[frozenset[str] | None, frozenset[int]] = {}

    def __call__(self, text: str, markers: Collection[str] | None = None) -> list[int]:
        """Returns tokens whose bytes are exactly those of `text`; see `vocabulary.Encode`."""
        key = None if markers is None else frozenset(markers)
        if key not in self._avoided:
            avoided = set(self._never)
            for token, name in self._markers.items():
                if key is None or name in key:
                    avoided.add(token)
            self._avoided[key] = frozenset(avoided)
        return self._encode(text.encode(), self._avoided[key])

    def _encode(self, data: bytes, avoid: Container[int]) -> list[int]:
        ids = self._tokenize(data)
        found = {self._tokens[token] for token in ids if token in avoid}
        if not found and _join(self._tokens, ids) == data:
            return ids
        if not found:
            return self._spell(data)
        longest_first = sorted(map(re.escape, found), reverse=True)
        parts = re.split(b"(%b)" % b"|".join(longest_first), data)
        if len(parts) == 1:  # a token for unknown characters, which no text contains
            return self._spell(data)
        split: list[int] = []
        for part in parts:
            if part in found:
                split += self._spell(part)
            else:
                split += self._encode(part, avoid)
        return split


def _join(tokens: Sequence[bytes], ids: Iterable[int]) -> bytes:
    return b"".join(map(tokens.__getitem__, ids))
