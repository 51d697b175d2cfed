"""A turn ends after the last call that it may have, in every format; none beyond is sent."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.inputs.sources import TEMPLATES
from benchmarks.inputs.stage import DRAW, Stage, stage
from constrained.decode.filters.call_limits import CallLimiter
from constrained.engine.scripted import scripted_logits
from constrained.errors import RequestError
from constrained.mask.logprobs import TokenDrawn
from constrained.model.reply import Reply
from constrained.prompt.job import CallLimits, Job
from grammars.parse.render import render
from grammars.turn import CallRead, ToolCall, Turn
from tests.scripted_model import scripted
from tests.templates import hermes_call

SPEC = {"type": "object", "properties": {"sides": {"type": "integer"}, "to": {"type": "string"}}}
ROLL = {"type": "function", "function": {"name": "roll", "parameters": SPEC}}
SIX = ToolCall("roll", {"sides": 6, "to": "me"})
FOUR = ToolCall("roll", {"sides": 4, "to": "me"})
TWISTED = ToolCall("roll", {"to": "me", "sides": 6})
ASK = [{"role": "user", "content": "Roll!"}]


def write(
    place: Stage, calls: tuple[ToolCall, ...], tools: Sequence[Any] = (ROLL,), **limits: Any
) -> Reply:
    """The reply of a model that wants to write these calls."""
    turn = place.model.compile(Job(ASK, tools, tool_choice="required", **limits))
    text = render(Turn(calls=calls), turn.format, turn.tools, turn.state)
    place._logits = scripted_logits(turn.vocabulary, text, len(turn.tokens))
    (reply,) = place.model.complete([turn], max_tokens=4000, sampling=DRAW)
    if reply.finish_reason == "tool_calls" and turn.matcher is not None:
        matcher = turn.matcher.fork()
        assert matcher.try_commit(turn.vocabulary.encode_marked(reply.text, turn.markers))
        assert matcher.is_complete
    return reply


def list_calls(reply: Reply) -> list[dict[str, Any]]:
    return [call.arguments for call in reply.calls]


@pytest.mark.parametrize("markers", ["text", "token"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_an_endless_call_is_ended_in_every_format(name: str, markers: str) -> None:
    place = stage(name, f"bytes, {markers}")
    format = place.teaching.format
    if format.single or format.bare is not None:
        pytest.skip("one call a turn")
    reply = write(place, (SIX,) * 5)
    assert list_calls(reply) == [SIX.arguments]
    assert reply.finish_reason == "tool_calls"
    assert not reply.content.strip()
    assert reply.usage.discarded_tokens > 0
    if markers == "text":
        mixed = write(place, (SIX, FOUR, TWISTED, FOUR, SIX), max_identical_calls=2)
        assert list_calls(mixed) == [call.arguments for call in (SIX, FOUR, SIX, FOUR)]
        return
    most = write(place, (SIX, FOUR, FOUR), max_calls=2)
    assert list_calls(most) == [SIX.arguments, FOUR.arguments]
    assert most.usage.discarded_tokens < 8  # the call that the turn may not have was not begun


def test_calls_may_be_repeated_without_a_limit() -> None:
    place = stage("hermes", "bytes, text")
    assert len(write(place, (SIX,) * 5, max_identical_calls=None).calls) == 5


def test_a_limit_of_the_caller_is_for_repeatable_tools_too() -> None:
    place = stage("hermes", "bytes, text")
    roll = {**ROLL, "function": {**ROLL["function"], "repeatable": True}}
    assert len(write(place, (SIX,) * 5, [roll]).calls) == 5
    assert len(write(place, (SIX,) * 5, [roll], max_identical_calls=1).calls) == 1
    assert len(write(place, (SIX,) * 5, [roll], max_identical_calls=2).calls) == 2
    assert len(write(place, (SIX,) * 5, [roll], max_calls=3).calls) == 3
    assert len(write(place, (SIX, FOUR, SIX), [roll], excluded_calls=[FOUR]).calls) == 1


def test_a_stream_sends_nothing_of_the_call_beyond() -> None:
    call = '<tool_call>\n{"name": "roll", "arguments": {"sides": 6}}\n</tool_call>'
    other = call.replace("6", "4")
    model = scripted("\n".join([call, call, other, call]))
    stream = model.stream("Roll!", [ROLL], tool_choice="required", max_identical_calls=2)
    sent = list(stream)
    read = [event.call.arguments for event in sent if isinstance(event, CallRead)]
    assert read == list_calls(stream.result)
    assert [event.index for event in sent if hasattr(event, "index")][-1] == 2
    assert list_calls(stream.result) == [{"sides": 6}, {"sides": 6}, {"sides": 4}]


@pytest.mark.parametrize("script", [[SIX, SIX], [SIX, FOUR, SIX, SIX], [SIX]])
def test_the_tokens_of_a_stream_are_those_of_the_reply(script: list[ToolCall]) -> None:
    texts = [hermes_call("roll", json.dumps(call.arguments)) for call in script]
    model = scripted("\n".join(texts))
    stream = model.stream("Roll!", [ROLL], tool_choice="required", logprobs=1)
    drawn = [event for event in stream if isinstance(event, TokenDrawn)]
    assert tuple(drawn) == stream.result.logprobs
    assert b"".join(one.text for one in drawn).decode() == stream.result.text


def test_a_turn_whose_tokens_run_out_in_the_call_beyond() -> None:
    call = '<tool_call>\n{"name": "roll", "arguments": {"sides": 6}}\n</tool_call>'
    for tokens in range(70, 300, 7):
        reply = scripted("\n".join([call] * 9)).call(
            "Roll!", [ROLL], tool_choice="required", max_tokens=tokens
        )
        assert reply.calls
        assert len(reply.calls) == 1
        assert reply.usage.completion_tokens <= tokens


def test_the_last_call_may_be_cut() -> None:
    """It is closed because the tokens run out, and no more calls may follow: it is said."""
    script = hermes_call("roll", '{"sides": 6, "to": "' + "".join(map(str, range(99))) + '"}')
    for limits in ({}, {"max_calls": 1}, {"parallel": False}):
        reply = scripted(script).call(
            "Roll!", [ROLL], tool_choice="required", max_tokens=120, **limits
        )
        (call,) = reply.calls
        assert (reply.finish_reason, call.truncated) == ("length", True)


@pytest.mark.parametrize("name", ["max_calls", "max_identical_calls"])
@pytest.mark.parametrize("value", [0, -1, True, "2", 1.5])
def test_a_limit_is_a_number_from_one_on(name: str, value: Any) -> None:
    with pytest.raises(RequestError) as error:
        scripted("").call("Roll!", [ROLL], **{name: value})
    assert error.value.where == f"/{name}"


VALUES = st.sampled_from([1, 1.0, True, "1", None, [1], [1.0], {"a": 1, "b": 2}, {"b": 2, "a": 1}])
ARGUMENTS = st.dictionaries(st.sampled_from("xy"), VALUES, max_size=2)
CALLS = st.builds(ToolCall, st.sampled_from(["roll", "send"]), ARGUMENTS)


def is_same(left: Any, right: Any) -> bool:
    """Equality as JSON Schema has it: 1 is 1.0 but not true, and keys have no order."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return left == right and isinstance(left, bool) == isinstance(right, bool)


@given(st.lists(CALLS, max_size=8), st.integers(1, 3), st.sets(st.sampled_from(["roll", "send"])))
def test_the_first_call_beyond_is_found(
    calls: list[ToolCall], most: int, repeatable: set[str]
) -> None:
    limiter = CallLimiter(CallLimits(identical=most, repeatable=frozenset(repeatable)))
    sent = [*limiter.take([CallRead(index, call) for index, call in enumerate(calls)])]
    expected: list[ToolCall] = []
    for call in calls:
        known = [
            c for c in expected if c.name == call.name and is_same(c.arguments, call.arguments)
        ]
        if len(known) == most and call.name not in repeatable:
            assert limiter.last == len(expected) - 1
            break
        expected.append(call)
    assert [event.call for event in sent if isinstance(event, CallRead)] == expected
