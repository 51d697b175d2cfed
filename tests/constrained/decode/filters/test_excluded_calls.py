"""Calls of earlier turns that the next turn should not have."""

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.inputs.sources import TEMPLATES
from benchmarks.inputs.stage import DRAW, stage
from constrained.engine.scripted import scripted_logits
from constrained.errors import RequestError
from constrained.mask.logprobs import TokenDrawn
from constrained.prompt.job import Job
from grammars.parse.render import render
from grammars.turn import CallOpened, CallRead, ToolCall, Turn
from tests.scripted_model import scripted, wishing
from tests.templates import hermes_call

SPEC = {"type": "object", "properties": {"sides": {"type": "integer"}, "to": {"type": "string"}}}
ROLL = {"type": "function", "function": {"name": "roll", "parameters": SPEC}}
SIX, FOUR = ToolCall("roll", {"sides": 6, "to": "me"}), ToolCall("roll", {"sides": 4, "to": "me"})
TWISTED = ToolCall("roll", {"to": "me", "sides": 6.0})


def write(call: ToolCall) -> str:
    return hermes_call(call.name, json.dumps(call.arguments))


@pytest.mark.parametrize("known", [SIX, TWISTED])
def test_the_model_answers_in_place_of_the_call(known: ToolCall) -> None:
    model = wishing(write(SIX), "I have rolled a six.")
    reply = model.call("Roll!", [ROLL], excluded_calls=[known])
    assert reply.calls == ()
    assert reply.content == "I have rolled a six."
    assert reply.barred_calls == (SIX,)
    assert reply.usage.discarded_tokens > 0


def test_nothing_of_the_call_is_sent() -> None:
    model = wishing(write(SIX), "I have rolled a six.")
    stream = model.stream("Roll!", [ROLL], excluded_calls=[SIX])
    sent = list(stream)
    assert not [event for event in sent if isinstance(event, CallOpened | CallRead)]
    assert stream.result.content == "I have rolled a six."


@pytest.mark.parametrize("content", ["", "Let me see. "])
def test_no_token_of_the_call_is_sent(content: str) -> None:
    model = wishing(content + write(SIX), f"{content}I have rolled a six.")
    stream = model.stream("Roll!", [ROLL], excluded_calls=[SIX], logprobs=1)
    drawn = [event for event in stream if isinstance(event, TokenDrawn)]
    reply = stream.result
    assert reply.content == f"{content}I have rolled a six."
    assert tuple(drawn) == reply.logprobs
    assert b"".join(one.text for one in drawn).decode() == reply.text


def test_other_calls_are_not_touched() -> None:
    both = f"{write(FOUR)}\n{write(SIX)}"
    reply = scripted(both).call("Roll!", [ROLL], excluded_calls=[SIX])
    assert [call.arguments for call in reply.calls] == [FOUR.arguments]
    assert reply.barred_calls == ()


def test_where_a_call_is_required_it_is_another_one() -> None:
    model = wishing(write(SIX), write(FOUR))
    reply = model.call("Roll!", [ROLL], tool_choice="required", max_calls=1, excluded_calls=[SIX])
    (made,) = reply.calls
    assert (made.name, made.valid) == ("roll", True)
    assert made.arguments != SIX.arguments


def test_where_there_is_no_other_call_it_is_that_one() -> None:
    ping = {"name": "ping", "parameters": {"type": "object", "additionalProperties": False}}
    known = ToolCall("ping", {})
    stream = wishing(hermes_call("ping")).stream(
        "Go!", [ping], tool_choice="required", excluded_calls=[known]
    )
    read = [event.call for event in stream if isinstance(event, CallRead)]
    assert read == list(stream.result.calls)
    assert [call.name for call in read] == ["ping"]


def test_tokens_that_run_out_in_the_call() -> None:
    for tokens in range(20, 150, 9):
        reply = wishing(write(SIX), "Six.").call(
            "Roll!", [ROLL], excluded_calls=[SIX], max_tokens=tokens
        )
        assert reply.usage.completion_tokens <= tokens
        assert not [call for call in reply.calls if not call.truncated]


@pytest.mark.parametrize("name", sorted(TEMPLATES)[::6])
def test_all_kinds_of_formats_go_back(name: str) -> None:
    place = stage(name, "bytes, text")
    ask: list[Any] = [{"role": "user", "content": "Roll!"}]
    turn = place.model.compile(Job(ask, [ROLL], excluded_calls=(SIX,)))
    text = render(Turn(calls=(SIX,)), turn.format, turn.tools, turn.state)
    wish = scripted_logits(turn.vocabulary, text, len(turn.tokens))

    def logits(sequence: int, tokens: Any) -> np.ndarray:
        row = wish(sequence, tokens)
        row[turn.vocabulary.end[0]] += 1  # who leaves the script ends the turn
        return row

    place._logits = logits
    (reply,) = place.model.complete([turn], max_tokens=4000, sampling=DRAW)
    assert [call.arguments for call in reply.barred_calls] == [SIX.arguments]
    assert SIX.arguments not in [call.arguments for call in reply.calls]


def test_what_is_no_call() -> None:
    with pytest.raises(RequestError) as error:
        scripted("").call("Roll!", [ROLL], excluded_calls=["roll"])  # type: ignore[list-item]
    assert error.value.where == "/excluded_calls"
