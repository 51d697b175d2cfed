"""How sure the model was of its calls, and who is asked about those that it was not sure of."""

import json
import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.agent.run import run
from constrained.decode.token_trace import Alternative, TokenSource, TracedToken
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.errors import RequestError
from constrained.model.trace.confidence import measure_confidence
from constrained.model.trace.places import TokenPlace, TracedPart
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import ToolCall
from tests.constrained.model.trace.choosing_model import GREEDY, PAINT, TURN, choosing
from tests.scripted_model import BYTES, scripted
from tests.templates import HERMES, QWEN3_CODER, hermes_call


def test_it_is_the_probability_among_what_is_allowed() -> None:
    likely = {"b": 0.2, "g": 0.5, "r": 0.3, "x": 10.0}  # the mask leaves no x
    model = choosing(likely, {"1": 0.9, "2": 0.1})
    options: Any = {"sampling": GREEDY}
    reply = model.call("Paint!", [PAINT], trace=True, **options)
    (call,) = reply.calls
    assert call.arguments == {"colour": "green", "coats": 1}
    assert call.confidence is not None
    assert call.confidence.arguments["colour"] == pytest.approx(0.5, abs=0.01)
    assert call.confidence.arguments["coats"] == pytest.approx(0.9, abs=0.01)
    assert call.confidence.lowest == call.confidence.arguments["colour"]
    assert call.confidence.name > 0.9
    plain = model.call("Paint!", [PAINT], **options)
    assert plain.calls[0].confidence is None
    assert plain.calls[0] == call


def test_all_of_a_name_counts() -> None:
    def logits(sequence: int, tokens: Any) -> np.ndarray:
        text = BYTES.text(tokens)
        start = text.rindex(TURN) + len(TURN)
        row = scripted_logits(BYTES, hermes_call("get_a", "{}"), start)(sequence, tokens)
        if text.endswith(b'"name": "get_'):
            row[BYTES.encode("b")[0]] = row.max() - math.log(4)
        return row

    model = Model(ScriptedEngine(BYTES, logits, context_length=20_000), ChatTemplate(HERMES))
    names = ("get_a", "get_b", "set")
    tools = [{"name": name, "parameters": {"type": "object"}} for name in names]
    (call,) = model.call("Go!", tools, trace=True, sampling=GREEDY).calls
    assert call.confidence is not None
    assert call.confidence.name == pytest.approx(0.8, abs=0.01)


def test_a_longer_token_that_spells_the_same_is_no_doubt() -> None:
    def trace(text: bytes, *rivals: tuple[bytes, float]) -> TracedToken:
        others = tuple(Alternative(9, rival, share, is_allowed=True) for rival, share in rivals)
        token = TracedToken(1, text, TokenSource.DRAWN, 0.0)
        return replace(token, masked_probability=0.4, rivals=others)

    same, other, shorter = (b"green", 0.3), (b"grey", 0.2), (b"g", 0.1)
    first = trace(b"gr", (b"gr", 0.4), same, other, shorter)
    rest = TracedToken(2, b"een", TokenSource.FORCED, 0.0)
    places = [
        TokenPlace(TracedPart.TOOL_NAME, 0),
        TokenPlace(TracedPart.ARGUMENTS, 0, "/colour"),
        TokenPlace(TracedPart.ARGUMENTS, 0, "/colour"),
    ]
    name = TracedToken(3, b"paint", TokenSource.FORCED, 0.0)
    (confidence,) = measure_confidence([name, first, rest], places)
    assert confidence.arguments == {"colour": pytest.approx(0.7)}
    assert confidence.name == 1


@pytest.mark.parametrize("source", [HERMES, QWEN3_CODER])
def test_each_call_has_its_own(source: str) -> None:
    def write(colour: str) -> str:
        if source == HERMES:
            return hermes_call("paint", json.dumps({"colour": colour, "coats": 1}))
        values = f"<parameter=colour>\n{colour}\n</parameter>\n<parameter=coats>\n1\n</parameter>\n"
        return f"<tool_call>\n<function=paint>\n{values}</function>\n</tool_call>"

    model = scripted(f"{write('red')}\n{write('blue')}", source=source)
    reply = model.call("Paint!", [PAINT], trace=True, sampling=GREEDY)
    assert [call.arguments["colour"] for call in reply.calls] == ["red", "blue"]
    for call in reply.calls:
        assert call.confidence is not None
        assert set(call.confidence.arguments) <= {"colour", "coats"}
        assert 0.9 < call.confidence.lowest <= 1  # the script is sure of all that it says


def paint(colour: Literal["blue", "green", "red"], coats: Literal[1, 2]) -> str:
    return "painted"


def test_who_is_not_sure_asks() -> None:
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> bool:
        asked.append(call)
        return False

    options: Any = {"sampling": GREEDY, "approve": approve, "max_steps": 2}
    likely = {"b": 0.2, "g": 0.5, "r": 0.3}
    ran = run(choosing(likely, {"1": 1}), "Go.", [paint], min_confidence=0.4, **options)
    assert asked == []
    assert ran.calls[0].result == "painted"
    again = run(choosing(likely, {"1": 1}), "Go.", [paint], min_confidence=0.6, **options)
    assert [call.name for call in asked] == ["paint"]
    assert again.calls[0].outcome == "declined"


def test_somebody_has_to_be_asked() -> None:
    with pytest.raises(RequestError) as error:
        run(scripted("x"), "Go.", [paint], min_confidence=0.5)
    assert error.value.where == "/min_confidence"
    with pytest.raises(RequestError, match="must be from 0 to 1"):
        run(scripted("x"), "Go.", [paint], min_confidence=60, approve=lambda call: True)
