"""A vocabulary of bytes, markers and words."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from constrained.engine.vocabulary.vocabulary import Vocabulary, byte_vocabulary

WORDS = (
    "Hello",
    " wor",
    " world",
    "wor",
    "ld",
    " w",
    "lo",
    "<tool",
    "_call>",
    '{"',
    '": ',
    '\n{"',
    " [1",
)
MARKERS = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>")


def make_vocabulary(words: Sequence[str] = WORDS) -> Vocabulary:
    """Bytes, markers and words; texts are cut into the longest words."""
    bytes_only = byte_vocabulary(MARKERS)
    ids = {word: len(bytes_only.tokens) + n for n, word in enumerate(words)}
    longest = sorted(map(re.escape, words), key=len, reverse=True)

    def encode(text: str, markers: Collection[str] | None = None) -> list[int]:
        parts = re.split(f"({'|'.join(longest)})", text)
        return [t for p in parts for t in ([ids[p]] if p in ids else list(p.encode()))]

    tokens = (*bytes_only.tokens, *(word.encode() for word in words))
    return replace(bytes_only, tokens=tokens, encode=encode)
