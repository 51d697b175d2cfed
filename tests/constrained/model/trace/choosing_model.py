"""A model that is told how likely it finds the values of a call."""

import math
from typing import Any

import numpy as np

from constrained.agent.model import Model
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.prompt.template.chat_template import ChatTemplate
from tests.scripted_model import BYTES
from tests.templates import HERMES, hermes_call

TURN = b"<|im_start|>assistant\n"
GREEDY = Sampling(temperature=0)
COLOURS = ["blue", "green", "red"]
PAINT = {
    "name": "paint",
    "parameters": {
        "type": "object",
        "properties": {"colour": {"enum": COLOURS}, "coats": {"enum": [1, 2]}},
        "required": ["colour", "coats"],
    },
}
SCRIPT = hermes_call("paint", '{"colour": "green", "coats": 1}')


def choosing(colour: dict[str, float], coats: dict[str, float]) -> Model:
    """A model that finds each colour and number as likely as given, and is sure of all else; once
    there is a result, it answers."""

    def logits(sequence: int, tokens: Any) -> np.ndarray:
        text = BYTES.text(tokens)
        start = text.rindex(TURN) + len(TURN)
        script = "ok" if b"painted" in text else SCRIPT
        row = scripted_logits(BYTES, script, start)(sequence, tokens)
        weights: dict[str, float] = {}
        if text.endswith(b'"colour": "'):
            weights = colour
        elif text.endswith(b'"coats": '):
            weights = coats
        if weights:
            row[:] = 0
        for first, weight in weights.items():
            row[BYTES.encode(first)[0]] = 30 + math.log(weight)
        return row

    engine = ScriptedEngine(BYTES, logits, context_length=20_000)
    return Model(engine, ChatTemplate(HERMES))
