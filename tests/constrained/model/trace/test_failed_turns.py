"""The trace of a turn that fails: its tokens up to there, whatever it has failed with."""

from typing import Any

import pytest

from constrained.agent.model import Model
from constrained.errors import ReplyError
from constrained.model.trace.turn_trace import TurnTrace
from constrained.prompt.job import Job
from tests.scripted_model import failing, scripted
from tests.templates import hermes_call, tool

HELLO = Job([{"role": "user", "content": "hi"}])


def trace_failure(
    model: Model, job: Job, error: type[Exception], **options: Any
) -> list[TurnTrace]:
    """The traces of the turn of a job, which fails."""
    traces: list[TurnTrace] = []
    stream = model.stream_turn(
        model.compile(job), trace=True, note_failed_trace=traces.append, **options
    )
    with pytest.raises(error):
        _ = stream.result
    return traces


def write(trace: TurnTrace) -> str:
    return b"".join(token.text for token in trace.tokens).decode()


@pytest.mark.parametrize("offloads", [False, True])
def test_an_engine_that_fails(offloads: bool) -> None:
    """Also where the text of the last tokens was to be written during the next decode."""
    with failing("Hello there, friend.", at=8, offloads=offloads) as model:
        (trace,) = trace_failure(model, HELLO, RuntimeError)
    assert (write(trace), trace.finish) == ("Hello the", "error")
    assert [place.part for place in trace.places if place] == ["content"] * 9
    assert trace.to_json()["finish_reason"] == "error"


def test_a_reply_that_does_not_fit() -> None:
    """Its turn is whole, and was checked at its end."""
    schema = {"type": "string", "maxLength": 5, "pattern": "^(?!()\\1)"}  # nothing fits
    tools = [tool("f", {"x": schema})]
    text = hermes_call("f", '{"x": "aa"}')
    job = Job([{"role": "user", "content": "hi"}], tools, tool_choice="required")
    with scripted(text) as model:
        (trace,) = trace_failure(model, job, ReplyError)
    assert trace.calls == ("f",)
    assert '"aa"' in write(trace)


def test_without_a_trace_there_is_none() -> None:
    traces: list[TurnTrace] = []
    with failing("Hello there, friend.", at=8) as model:
        stream = model.stream_turn(model.compile(HELLO), note_failed_trace=traces.append)
        with pytest.raises(RuntimeError):
            _ = stream.result
    assert traces == []
