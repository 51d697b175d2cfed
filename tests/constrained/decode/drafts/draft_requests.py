"""Requests for tests of drafts, and an engine whose turns are told in advance."""

import re
from collections.abc import Sequence

import numpy as np

from constrained.decode.request import DecodeInput, DecodeOptions, Request
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine
from grammars.parse.parser import Parser
from grammars.wire.formats import HERMES
from tests.scripted_model import BYTES, TURN

GREEDY = Sampling(temperature=0)


def ask(prompt: bytes, max_tokens: int, sampling: Sampling, draft: bool) -> Request:
    turn = DecodeInput(tuple(prompt), lambda: Parser(HERMES, ()))
    return Request(turn, DecodeOptions(max_tokens=max_tokens, sampling=sampling, draft=draft))


class Wishes(ScriptedEngine):
    """A model that would like to write the first text, else the next one, but not always."""

    def __init__(self) -> None:
        super().__init__(BYTES, self._like, context_length=20_000)
        self.texts: Sequence[str] = ()
        self.noise = 0.0

    def _like(self, sequence: int, tokens: Sequence[int]) -> np.ndarray:
        text = BYTES.text(tokens)
        start = [found.end() for found in re.finditer(TURN, text)][-1]
        written = text[start:]
        random = np.random.default_rng([len(text), *text[-3:]])
        row = self.noise * random.standard_normal(len(BYTES.tokens)).astype(np.float32)
        for rank, wish in enumerate(self.texts):
            data = wish.encode()
            if data.startswith(written):
                token = data[len(written)] if len(written) < len(data) else BYTES.end[0]
                row[token] = max(row[token], 20 - rank)
        return row
