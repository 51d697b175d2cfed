"""A model over the whole stack that says what it is told to."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.model import Model
from constrained.template import ChatTemplate
from constrained.vocabulary import byte_vocabulary
from tests.templates import HERMES

BYTES = byte_vocabulary()
TURN = b"<|im_start|>assistant\n"


def scripted(*scripts: str, source: str = HERMES, vocabulary: Any = BYTES) -> Model:
    """A model whose turns are the scripts, one after the other, and then the last one."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        text = vocabulary.text(tokens)
        number = min(text.count(TURN), len(scripts)) - 1
        start = text.rindex(TURN) + len(TURN)  # a byte is a token
        return scripted_logits(vocabulary, scripts[number], start)(sequence, tokens)

    engine = ScriptedEngine(vocabulary, logits, context_length=20_000)
    return Model(engine, ChatTemplate(source))
