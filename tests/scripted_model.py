"""A model over the whole stack that says what it is told to."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from constrained.agent.model import Model
from constrained.engine.sampling import Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.engine.vocabulary.vocabulary import Vocabulary, byte_vocabulary
from constrained.prompt.template.chat_template import ChatTemplate
from tests.templates import HERMES

BYTES = byte_vocabulary()
TURN = rb"<\|im_start\|>assistant\n"
OPENED = rb"<\|im_start\|>assistant\n(<think>\n(\n</think>\n\n)?)?"


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


def failing(script: str, *, at: int, **options: Any) -> Model:
    """A model whose engine fails once more than so many bytes of the turn are written."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        text = BYTES.text(tokens)
        start = [found.end() for found in re.finditer(TURN, text)][-1]
        if len(text) - start > at:
            raise RuntimeError("the device is lost")
        return scripted_logits(BYTES, script, start)(sequence, tokens)

    engine = ScriptedEngine(BYTES, logits, context_length=20_000, **options)
    return Model(engine, ChatTemplate(HERMES))


def wish(texts: Sequence[Sequence[int]], vocabulary: Vocabulary) -> Any:
    """Logits of a model that would like to write the first text, else the next one, ..."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        row = np.zeros(len(vocabulary.tokens), np.float32)
        for rank, text in enumerate(texts):
            count = len(tokens) - 1
            if list(tokens[1:]) == list(text[:count]):
                token = text[count] if count < len(text) else vocabulary.end[0]
                row[token] = max(row[token], 20 - rank)
        return row

    return logits


def wishing(*texts: str, source: str = HERMES, **options: Any) -> Model:
    """A model that answers with the first text, or with the next one where it may not."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        start = [found.end() for found in re.finditer(TURN, BYTES.text(tokens))][-1]
        wishes = [BYTES.encode_special(text) for text in texts]
        return wish(wishes, BYTES)(sequence, [0, *tokens[start:]])

    engine = ScriptedEngine(BYTES, logits, context_length=20_000, **options)
    return Model(engine, ChatTemplate(source), sampling=Sampling(temperature=0))
