"""llama.cpp's own reading of GBNF, token by token, over the vocabulary of a file."""

import ctypes
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp

from constrained.vocabulary.vocabulary import Vocabulary


class GbnfEngine:
    """The grammar sampler of llama.cpp.

    Args:
        path: a GGUF file, of which only the vocabulary is read.
        vocabulary: the same as we read it.
    """

    def __init__(self, path: Path, vocabulary: Vocabulary):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        assert model, path
        self._model = model
        vocab = llama_cpp.llama_model_get_vocab(model)
        assert vocab
        self._vocab = vocab
        self.vocabulary = vocabulary
        self._end: int = llama_cpp.llama_vocab_eos(vocab)

    def close(self) -> None:
        """Frees the model."""
        llama_cpp.llama_model_free(self._model)

    @contextmanager
    def reading(self, grammar: str) -> Iterator["GbnfReading"]:
        """The state of a turn in a grammar, in front of its first token.

        Raises:
            ValueError: llama.cpp refuses the grammar.
        """
        sampler = llama_cpp.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
        if not sampler:
            raise ValueError("llama.cpp refuses the grammar")
        try:
            yield GbnfReading(sampler, self._end, self.vocabulary)
        finally:
            llama_cpp.llama_sampler_free(sampler)


class GbnfReading:
    """A turn under way; see `GbnfEngine.reading`."""

    def __init__(
        self, sampler: Any, end: int, vocabulary: Vocabulary
    ):
        self._sampler = sampler
        self._end = end
        self._vocabulary = vocabulary

    def allowed(self, tokens: Sequence[int]) -> list[int]:
        """Those of the tokens that may come next."""
        data = (llama_cpp.llama_token_data * len(tokens))()
        for entry, token in zip(data, tokens, strict=True):
            entry.id, entry.logit = token, 0.0
        array = llama_cpp.llama_token_data_array(data, len(tokens), -1, False)
        llama_cpp.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return [entry.id for entry in data if not math.isinf(entry.logit)]

    def commit(self, token: int) -> None:
        """Goes on behind a token that is allowed: any other one would end the process."""
        llama_cpp.llama_sampler_accept(self._sampler, token)

    @property
    def may_end(self) -> bool:
        """May the turn end here?"""
        return bool(self.allowed([self._end]))

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Are these tokens a whole turn? The reading is in front of the turn again behind that."""
        try:
            for token in tokens:
                if not self.allowed([token]):
                    return False
                self.commit(token)
            return self.may_end
        finally:
            llama_cpp.llama_sampler_reset(self._sampler)

    def walk(
        self, candidates: Sequence[int], closers: Sequence[Sequence[int]], draw: random.Random
    ) -> list[int] | None:
        """A random turn; None if it finds no end.

        Args:
            candidates: the tokens that are drawn from.
            closers: what is tried first once the turn is long, so that it comes to an end.
            draw: the source of chance.
        """
        turn: list[int] = []
        patience = draw.randint(0, 60)
        try:
            for step in range(400):
                if draw.random() < (0.6 if step > patience else 0.3) and self.may_end:
                    return turn
                token = self._draw(candidates, closers if step > patience else (), draw)
                if token is None:
                    return turn if self.may_end else None
                self.commit(token)
                turn.append(token)
            return None
        finally:
            llama_cpp.llama_sampler_reset(self._sampler)

    def _draw(
        self, candidates: Sequence[int], closers: Sequence[Sequence[int]], draw: random.Random
    ) -> int | None:
        for closer in closers:
            if self.allowed(closer[:1]):
                return closer[0]
        allowed = self.allowed(candidates)
        return draw.choice(allowed) if allowed else None
