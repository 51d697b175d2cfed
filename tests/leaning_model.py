"""A model that writes calls in another envelope than its own, and follows where it is led back."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from constrained.agent.model import Model
from constrained.engine.sampling import Sampling
from constrained.engine.scripted import ScriptedEngine
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.prompt.template.chat_template import ChatTemplate
from tests.scripted_model import BYTES, TURN
from tests.templates import HERMES

NEXT, OTHER, END = 200.0, 100.0, 10.0  # logits


@dataclass(frozen=True)
class Leaning:
    """What the model would like to write in one turn.

    Args:
        script: the turn, as it begins it.
        native: the turn from `name` on, for the case that it does not go on like the script.
        name: the first text that both have.
    """

    script: str
    native: str = ""
    name: str = "get_weather"

    def find_rest(self, written: bytes) -> bytes:
        """Returns what the model writes next; b"": the end."""
        script, native, name = self.script.encode(), self.native.encode(), self.name.encode()
        for text, begun in ((script, written), (_alike(script), _alike(written))):
            if text.startswith(begun):
                return text[len(begun) :]
        after = written[written.find(name) :]
        return native[len(after) :] if native.startswith(after) else b""


def _alike(text: bytes) -> bytes:
    """Returns the text with one kind of quotes: where a mask forbids one, the other comes next."""
    return text.replace(b"'", b'"')


def lean(
    *turns: Leaning,
    source: str = HERMES,
    vocabulary: Vocabulary = BYTES,
    turn: bytes = TURN,
    draft: bool = True,
    **options: Any,
) -> Model:
    """Makes a model whose turns are these, one after the other; `options`: of the engine."""
    ids = {data: token for token, data in enumerate(vocabulary.tokens) if data}
    longest = max(map(len, ids))

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        text = vocabulary.text(tokens)
        starts = [found.end() for found in re.finditer(turn, text)]
        wish = turns[min(len(starts), len(turns)) - 1]
        rest = wish.find_rest(text[starts[-1] :])
        row = np.zeros(len(vocabulary.tokens), np.float32)
        row[vocabulary.end[0]] = END
        for size in range(1, min(longest, len(rest)) + 1):
            for text, logit in ((_alike(rest[:size]), OTHER), (rest[:size], NEXT)):
                token = ids.get(text)
                if token is not None:
                    row[token] = logit + size
        return row

    engine = ScriptedEngine(vocabulary, logits, context_length=20_000, **options)
    return Model(engine, ChatTemplate(source), sampling=Sampling(temperature=0), draft=draft)
