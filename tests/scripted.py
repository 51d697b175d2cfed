"""A model over the whole stack that says what it is told to."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.model import Model
from constrained.template import ChatTemplate
from constrained.vocabulary import byte_vocabulary
from tests.templates import HERMES

BYTES = byte_vocabulary()
TURN = rb"<\|im_start\|>assistant\n"


def scripted(
    *scripts: str, source: str = HERMES, vocabulary: Any = BYTES, turn: bytes = TURN
) -> Model:
    """A model whose turns are the scripts, one after the other, and then the last one; `turn` is
    an expression for what a prompt has in front of a turn."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        text = vocabulary.text(tokens)
        starts = [found.end() for found in re.finditer(turn, text)]  # a byte is a token
        number, start = min(len(starts), len(scripts)) - 1, starts[-1]
        return scripted_logits(vocabulary, scripts[number], start)(sequence, tokens)

    engine = ScriptedEngine(vocabulary, logits, context_length=20_000)
    return Model(engine, ChatTemplate(source))
