"""How likely the model found a call at all, where it makes one and where it answers."""

import json
import math
from typing import Any

import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.prompt.template.chat_template import ChatTemplate
from tests.scripted_model import BYTES
from tests.templates import HERMES, PING, hermes_call

TURN = b"<|im_start|>assistant\n"
GREEDY = Sampling(temperature=0)
CALL = hermes_call("ping", "{}")


def answering(script: str, likely: dict[str, dict[str, float]], source: str = HERMES) -> Model:
    """A model that writes the script, and finds characters as likely as given after these texts,
    which the turn is, or ends in."""

    def logits(sequence: int, tokens: Any) -> np.ndarray:
        text = BYTES.text(tokens)
        start = text.rindex(TURN) + len(TURN)
        row = scripted_logits(BYTES, script, start)(sequence, tokens)
        weights = likely.get(text[start:].decode())
        for character, weight in (weights or {}).items():
            token = BYTES.end[0] if character == "" else BYTES.encode(character)[0]
            row[token] = 60 + math.log(weight)
        return row

    engine = ScriptedEngine(BYTES, logits, context_length=20_000)
    return Model(engine, ChatTemplate(source))


def ask(model: Model, **options: Any) -> Any:
    return model.call("Go!", [PING], trace=True, sampling=GREEDY, **options)


@pytest.mark.parametrize(
    ("script", "likely", "expected"),
    [
        (CALL, {"": {"<": 0.7, "N": 0.3}}, 0.7),
        ("No.", {"": {"N": 0.8, "<": 0.2}}, 0.2),
        # White space in front of either is no choice between them.
        ("No.", {"": {" ": 0.5, "N": 0.25, "<": 0.25}, " ": {"N": 0.9, "<": 0.1}}, 0.1),
        # Content may begin as a call does.
        ("<b>", {"": {"<": 0.6, "N": 0.4}, "<": {"b": 0.5, "t": 0.5}}, 0.3),
        (CALL, {"": {"<": 0.6, "N": 0.4}, "<": {"t": 0.9, "b": 0.1}}, 0.54),
        # A turn that ends at once is an answer.
        ("", {"": {"": 0.9, "<": 0.1}}, 0.1),
        # Behind a text, what counts is the place of the call.
        (f"Well. {CALL}", {"": {"W": 0.9, "<": 0.1}, "Well. ": {"<": 0.75, "N": 0.25}}, 0.75),
    ],
)
def test_it_is_that_of_what_opens_a_call(
    script: str, likely: dict[str, dict[str, float]], expected: float
) -> None:
    reply = ask(answering(script, likely))
    assert reply.call_probability == pytest.approx(expected, abs=0.01)
    shown = reply.trace.to_json()
    assert shown["call_probability"] == pytest.approx(expected, abs=0.01)
    assert len(shown["confidence"]) == len(reply.calls)
    json.dumps(shown)


def test_where_there_is_no_choice() -> None:
    model = answering(CALL, {})
    assert ask(model, tool_choice="required").call_probability == 1
    assert ask(model, tool_choice="none").call_probability is None
    assert model.call("Go!", [PING], sampling=GREEDY).call_probability is None
    assert model.call("Go!", trace=True, sampling=GREEDY, max_tokens=9).call_probability is None
