"""Masks of JSON Schemas, ours and llguidance's own, and random walks in them."""

import json
import random
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np

from constrained.engine.llama_files import read_header
from constrained.engine.vocabulary.vocabulary import Vocabulary, build_tokenizer, byte_vocabulary
from constrained.mask.matcher import Matcher
from constrained.model_files.sources import find_source
from grammars.schema.json_values import Json
from grammars.schema.nodes import Schema
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.values import Values
from grammars.wire.envelopes import LOOSE

BYTES = ""
"""The name of the vocabulary of bytes."""
_MOST_KEYS = 60
_LONGEST = 16  # bytes of a token
_STEERED = 0.15  # of the tokens of a walk: they close something, or begin a member


class Tokens:
    """The vocabulary of a model file, or of bytes."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.tokenizer = build_tokenizer(vocabulary, ())
        self.special = vocabulary.control | set(vocabulary.end)
        self._ids: dict[bytes, int] = {}
        for token, text in enumerate(vocabulary.tokens):
            if text and token not in self.special and len(text) <= _LONGEST:
                self._ids.setdefault(text, token)

    @cached_property
    def ordinary(self) -> list[int]:
        """The tokens that are text, no two alike."""
        return [*self._ids.values()]

    def cut(self, text: bytes, rng: random.Random) -> list[int]:
        """Cuts a text into tokens at random, short ones more often than an encoder does."""
        tokens: list[int] = []
        at = 0
        while at < len(text):
            ends = range(at + 1, min(at + _LONGEST, len(text)) + 1)
            known = [end for end in ends if text[at:end] in self._ids]
            end = rng.choice([*known, known[-1]])
            tokens.append(self._ids[text[at:end]])
            at = end
        return tokens

    def spell(self, text: str) -> list[int]:
        """Cuts a text into bytes."""
        return [self._ids[bytes([byte])] for byte in text.encode()]


@cache
def load_tokens(model: str) -> Tokens:
    """Returns the vocabulary of a model: a path or the name of a packaged one; BYTES: of bytes."""
    if model == BYTES:
        return Tokens(byte_vocabulary())
    return Tokens(read_header(find_source(model)).vocabulary)


def compile_ours(schema: Schema, tokens: Tokens) -> Matcher:
    """Compiles a lowered schema: a JSON answer whose white space the model chooses.

    Raises:
        GrammarError, SchemaError: it cannot be.
    """
    builder = GrammarBuilder()
    start = Values(builder, LOOSE).value(schema.node, schema.definitions)
    return Matcher.compile(tokens.tokenizer, builder.build(start).lark)


def compile_llguidance(schema: Json) -> Matcher:
    """Compiles a schema with llguidance alone, over bytes: JSON without white space. Keywords that
    it does not know are left out.

    Raises:
        GrammarError: it cannot.
    """
    options = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
    body = schema if isinstance(schema, dict) else {}
    loose = {**body, "x-guidance": {**options, "lenient": True}}
    return Matcher.compile(load_tokens(BYTES).tokenizer, f"start: %json {json.dumps(loose)}")


class Walk:
    """Random texts that a mask allows.

    Args:
        tokens: the vocabulary of the mask.
        keys: the names that its objects may require: random tokens hardly ever spell one.
        least: so many tokens are drawn before the walk looks for its end.
    """

    def __init__(self, tokens: Tokens, keys: Sequence[str], least: int):
        self._tokens = tokens
        self._least = least
        names = [json.dumps(key, ensure_ascii=False) for key in keys[:_MOST_KEYS]]
        texts = [f"{before}{name}:" for name in names for before in ("", ",", ", ")]
        self._keys = [tokens.spell(text) for text in texts]
        self._quote, *self._brackets = map(tokens.spell, '"}]')

    def write(self, mask: Matcher, rng: np.random.Generator) -> bytes | None:
        """Returns a text; None: its end was not found.

        Args:
            mask: it is advanced.
        """
        text = b""
        for step in range(3 * self._least + 60):
            steers = step >= self._least or rng.random() < _STEERED
            if steers and mask.is_complete:
                return text
            chosen = self._choose(mask, rng, steers=steers)
            if not chosen:
                return text if mask.is_complete else None
            if not mask.try_commit(chosen):
                return None
            text += self._tokens.vocabulary.text(chosen)
        return None

    def _choose(self, mask: Matcher, rng: np.random.Generator, *, steers: bool) -> list[int]:
        if steers and (target := self._find_target(mask, rng)):
            return target
        allowed = mask.mask()
        allowed[list(self._tokens.special)] = False
        ids = np.flatnonzero(allowed)
        return [int(rng.choice(ids))] if len(ids) else []

    def _find_target(self, mask: Matcher, rng: np.random.Generator) -> list[int]:
        """Returns what closes the innermost value, or else begins a member; [] if nothing does."""

        def takes(target: list[int]) -> bool:
            return mask.count_accepted(target) == len(target)

        closing = [*filter(takes, self._brackets)]
        if closing:  # inside a string, they are text
            return self._quote if takes(self._quote) else closing[0]
        first = int(rng.integers(len(self._keys) + 1))
        for target in (*self._keys[first:], *self._keys[:first], self._quote):
            if takes(target):
                return target
        return []
