"""Byte-level BPE vocabularies: reading, cutting, and adding markers such as `<tool_call>`."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gguf import TokenType

from examples.random_model.metadata import read_metadata

SMALL_VOCABULARY = Path(__file__).with_name("vocabulary.json")

# The markers that Qwen3 has as single tokens of type USER_DEFINED.
MARKERS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)

# How conversions name the ids for which the model has an embedding but the tokenizer no token.
PADDING = re.compile(r"\[PAD\d+\]")


def _byte_letters() -> dict[int, str]:
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain}
    return letters | {byte: chr(0x100 + place) for place, byte in enumerate(other)}


# The letter that byte-level BPE writes for each byte, in the order of GPT-2's vocabulary.
BYTE_LETTERS = _byte_letters()


@dataclass(frozen=True)
class Tokens:
    """A byte-level BPE tokenizer as a GGUF file stores it.

    Attributes:
        tokens: the text of every id; ordinary tokens in byte letters (a space is "Ġ"), tokens of
            other types as plain text.
        types: the `gguf.TokenType` of every id.
        merges: pairs "left right" in byte letters, the most important first.
        pre: the name of llama.cpp's pre-tokenizer, such as "qwen2".
        eos: id of the token that ends a turn.
        bos: id of the token that a text would begin with; it is never added by itself.
        pad: id of the padding token.
    """

    tokens: list[str]
    types: list[int]
    merges: list[str]
    pre: str
    eos: int
    bos: int | None = None
    pad: int | None = None

    def id_of(self, text: str) -> int:
        """Returns the id of the token spelled `text`; raises ValueError if there is none."""
        return self.tokens.index(text)


def read_vocabulary(path: Path) -> Tokens:
    """Reads the tokenizer of a GGUF file (with or without weights).

    As in conversions of chat models, and unlike in some vocabulary-only files, unassigned ids
    ("[PAD151646]") are UNUSED, and `<|im_end|>`, where it exists, ends a turn.

    Raises:
        ValueError: damaged, or the tokenizer is not byte-level BPE.
        OSError: the file cannot be read.
    """
    fields: dict[str, Any] = read_metadata(path)
    model = fields.get("tokenizer.ggml.model")
    if model != "gpt2":
        raise ValueError(f"{path}: the tokenizer is {model!r}; only byte-level BPE ('gpt2') works")
    texts: list[str] = fields["tokenizer.ggml.tokens"]
    types: list[int] = fields["tokenizer.ggml.token_type"]
    unused = int(TokenType.UNUSED)
    types = [
        unused if PADDING.fullmatch(text) else kind for text, kind in zip(texts, types, strict=True)
    ]
    end = "<|im_end|>"
    return Tokens(
        tokens=texts,
        types=types,
        merges=fields["tokenizer.ggml.merges"],
        pre=fields.get("tokenizer.ggml.pre", "default"),
        eos=texts.index(end) if end in texts else fields["tokenizer.ggml.eos_token_id"],
        bos=fields.get("tokenizer.ggml.bos_token_id"),
        pad=fields.get("tokenizer.ggml.padding_token_id"),
    )


def load_small() -> Tokens:
    """Returns the small vocabulary beside this file (see `train_vocabulary`), without markers."""
    data = json.loads(SMALL_VOCABULARY.read_text(encoding="utf-8"))
    texts: list[str] = data["tokens"] + data["control"]
    normal, control = int(TokenType.NORMAL), int(TokenType.CONTROL)
    end_of_text = texts.index("<|endoftext|>")
    return Tokens(
        tokens=texts,
        types=[normal] * len(data["tokens"]) + [control] * len(data["control"]),
        merges=data["merges"],
        pre=data["pre"],
        eos=texts.index("<|im_end|>"),
        bos=end_of_text,
        pad=end_of_text,
    )


def truncate(tokens: Tokens, n: int) -> Tokens:
    """Keeps the first `n` ordinary tokens, the merges among them, and all special tokens.

    Ids of ordinary tokens follow the order of the merges, so the result is again a complete
    tokenizer. Control tokens and markers get new ids after the ordinary ones; unused ids go.

    Raises:
        ValueError: `n` is too small to leave a token for each of the 256 bytes.
    """
    pairs = list(zip(tokens.tokens, tokens.types, strict=True))
    kept = [text for text, kind in pairs if kind == TokenType.NORMAL][:n]
    known = set(kept)
    if not known.issuperset(BYTE_LETTERS.values()):
        raise ValueError(f"the first {n} tokens do not contain all 256 bytes")
    ordinary = (TokenType.NORMAL, TokenType.UNUSED)
    special = [(text, kind) for text, kind in pairs if kind not in ordinary]
    texts = kept + [text for text, _ in special]
    ids = {text: place for place, text in enumerate(texts)}
    return replace(
        tokens,
        tokens=texts,
        types=[int(TokenType.NORMAL)] * len(kept) + [kind for _, kind in special],
        merges=[merge for merge in tokens.merges if _within(merge, known)],
        eos=ids[tokens.tokens[tokens.eos]],
        bos=None if tokens.bos is None else ids.get(tokens.tokens[tokens.bos]),
        pad=None if tokens.pad is None else ids.get(tokens.tokens[tokens.pad]),
    )


def _within(merge: str, known: set[str]) -> bool:
    return known.issuperset(merge.split(" ")) and merge.replace(" ", "") in known


def with_markers(
    tokens: Tokens, markers: Sequence[str], kind: TokenType = TokenType.USER_DEFINED
) -> Tokens:
    """Makes each marker one token of the given type.

    A marker that is a token already gets the type; others take the unused ids in order, and new
    ids at the end when those run out. Conversions give `<tool_call>` and `<think>` the type
    USER_DEFINED, which is visible text for llama.cpp; CONTROL is for markers that are not.

    Raises:
        ValueError: a marker is empty.
    """
    texts, types = list(tokens.tokens), list(tokens.types)
    ids = {text: place for place, text in enumerate(texts)}
    free = (place for place, old in enumerate(tokens.types) if old == TokenType.UNUSED)
    for marker in dict.fromkeys(markers):
        if not marker:
            raise ValueError("a marker cannot be empty")
        place = ids[marker] if marker in ids else next(free, len(texts))
        texts[place : place + 1] = [marker]
        types[place : place + 1] = [int(kind)]
    return replace(tokens, tokens=texts, types=types)
