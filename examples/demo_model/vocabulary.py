"""The vocabulary: byte-level BPE, as the GGUF file stores it, and its encoder."""

import json
from functools import lru_cache
from pathlib import Path

from gguf import TokenType
from tokenizers import (  # pyright: ignore[reportMissingImports]  of the extra `train`
    AddedToken,
    Tokenizer,
    models,
    pre_tokenizers,
)

from examples.random_model.vocabulary import BYTE_LETTERS, MARKERS, Tokens

FILE = Path(__file__).with_name("vocabulary.json")
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# llama.cpp's name for a pre-tokenizer that cuts text at digits alone, so that a token may hold
# quotes and spaces. No merge holds a digit, so nothing depends on how it groups them.
PRE_TOKENIZER = "superbpe"


@lru_cache(maxsize=1)
def load_vocabulary() -> Tokens:
    """The vocabulary that `train_vocabulary` has written."""
    merges = json.loads(FILE.read_text(encoding="utf-8"))
    return make_vocabulary([tuple(merge.split(" ")) for merge in merges])


def make_vocabulary(merges: list[tuple[str, ...]]) -> Tokens:
    """The vocabulary of merges in byte letters."""
    ordinary = [*BYTE_LETTERS.values(), *("".join(merge) for merge in merges)]
    texts = [*ordinary, *CONTROL, *MARKERS]
    types = [int(TokenType.NORMAL)] * len(ordinary)
    types += [int(TokenType.CONTROL)] * len(CONTROL) + [int(TokenType.USER_DEFINED)] * len(MARKERS)
    return Tokens(
        tokens=texts,
        types=types,
        merges=[" ".join(merge) for merge in merges],
        pre=PRE_TOKENIZER,
        eos=texts.index("<|im_end|>"),
        pad=texts.index("<|endoftext|>"),
    )


def make_encoder(vocabulary: Tokens) -> Tokenizer:
    """An encoder that agrees with llama.cpp's on a vocabulary."""
    ids = {text: place for place, text in enumerate(vocabulary.tokens)}
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in vocabulary.merges)]
    encoder = Tokenizer(models.BPE(vocab=ids, merges=pairs))
    encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    added = [AddedToken(text, normalized=False) for text in (*CONTROL, *MARKERS)]
    encoder.add_special_tokens(added)
    return encoder


def letter_pieces(vocabulary: Tokens) -> list[str]:
    """The tokens of two letters or more, without anything else in them."""
    return [
        text for text in vocabulary.tokens if len(text) > 1 and text.isascii() and text.isalpha()
    ]
