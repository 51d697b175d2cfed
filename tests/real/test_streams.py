"""Streams on real weights: typed while they are written, and the same as the whole reply."""

import json
from typing import Any

import pytest

from constrained import Model, Sampling
from constrained.decode.filters.events import find_events
from constrained.mask.logprobs import TokenDrawn
from grammars.parse.parser import collect
from grammars.turn import ArgumentsDelta, CallRead, ContentDelta
from tests.real.asks import QUESTION, TOOLS, each_sampling
from tests.replies import uncounted

pytestmark = pytest.mark.real

TRIP = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city", "days"],
}
ANSWER = {"type": "json_schema", "json_schema": {"name": "trip", "schema": TRIP}}
REQUESTS: dict[str, dict[str, Any]] = {
    "text": {},
    "call": {"tools": TOOLS, "tool_choice": "required", "parallel": False},
    "calls": {"tools": TOOLS, "tool_choice": "required", "max_calls": 2},
    "free": {"tools": TOOLS},
    "value": {"response_format": ANSWER},
    "cut": {"tools": TOOLS, "tool_choice": "required", "max_tokens": 36},
    "logprobs": {"logprobs": 2, "max_tokens": 16},
}


def extends(later: Any, earlier: Any) -> bool:
    """True if a partial value goes on with an earlier one: nothing is taken back."""
    match earlier:
        case dict():
            if list(later)[: len(earlier)] != list(earlier):
                return False
            return all(extends(later[key], value) for key, value in earlier.items())
        case str():
            return isinstance(later, str) and later.startswith(earlier)
        case _:
            return type(later) is type(earlier)


@each_sampling
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_stream_is_the_whole_reply(exact: Model, kind: str, sampling: Sampling) -> None:
    request = {"max_tokens": 80, "sampling": sampling} | REQUESTS[kind]
    stream = exact.stream(QUESTION, **request)
    events = list[Any]()
    seen = dict[int, list[dict[str, Any]]]()
    for event in stream:
        events.append(event)
        if isinstance(event, ArgumentsDelta):
            seen.setdefault(event.index, []).append(stream.arguments(event.index))
    reply = stream.result
    assert uncounted(exact.call(QUESTION, **request)) == uncounted(reply)

    told = "".join(event.text for event in events if isinstance(event, ContentDelta))
    assert told == reply.content
    assert collect(find_events(events)).content == reply.content
    assert tuple(e for e in events if isinstance(e, TokenDrawn)) == reply.logprobs
    read = [(event.call.name, event.call.arguments) for event in events if type(event) is CallRead]
    assert read[: len(reply.calls)] == [(call.name, call.arguments) for call in reply.calls]
    for index, call in enumerate(reply.calls):
        parts = [e.text for e in events if type(e) is ArgumentsDelta and e.index == index]
        assert json.loads("".join(parts)) == call.arguments
        assert seen[index][-1] == call.arguments
        for earlier, later in zip(seen[index], seen[index][1:], strict=False):
            assert extends(later, earlier), (earlier, later)


@each_sampling
def test_a_stop_text_ends_stream_and_reply_alike(exact: Model, sampling: Sampling) -> None:
    request: dict[str, Any] = {"max_tokens": 40, "sampling": sampling}
    free = exact.call("Tell me about Rome.", **request).content
    stop = free[len(free) // 2 :][:5]
    stream = exact.stream("Tell me about Rome.", stop=stop, **request)
    told = "".join(event.text for event in stream if isinstance(event, ContentDelta))
    assert told == stream.result.content == free[: free.index(stop)]
    assert stream.result.stop_sequence == stop
    assert uncounted(exact.call("Tell me about Rome.", stop=stop, **request)) == uncounted(
        stream.result
    )


@each_sampling
def test_a_stream_that_is_left_frees_the_model(model: Model, sampling: Sampling) -> None:
    stream = model.stream("Tell me a long story.", max_tokens=1500, sampling=sampling)
    for _ in stream:
        break
    assert stream.result.finish_reason == "cancelled"
    assert stream.result.usage.completion_tokens < 1500
    assert model.call("Hello", max_tokens=3, sampling=sampling).usage.completion_tokens <= 3
