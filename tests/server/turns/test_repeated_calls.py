"""Calls that a conversation has again and again."""

import json
import logging

import pytest

from constrained.prompt.messages import normalise
from server.turns.request_completion import find_repeated_calls
from tests.scripted_model import scripted
from tests.server.running_server import running
from tests.templates import tool

GREETING = {"role": "user", "content": "Hello"}


def call(arguments: object, number: int = 1) -> dict[str, object]:
    function = {"name": "f", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": f"call_{number}", "function": function}]}


@pytest.mark.parametrize("arguments", ["[" * 100_000, "[" * 100_000 + "]" * 100_000])
def test_arguments_that_nest_deeply_are_compared_as_they_are_spelled(arguments: str) -> None:
    messages = [call(arguments)] * 3
    assert find_repeated_calls(messages, 3) == [("f", 3)]
    assert normalise([call("{}"), call(arguments)])
    with running(scripted("Hi.")) as client:
        body = {"messages": [GREETING, *messages]}
        assert client.post("/v1/chat/completions", json=body).status_code == 400
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("depth", [700, 100_000])
def test_calls_that_nest_deeply_cost_no_request(depth: int) -> None:
    arguments = '{"a":' + "[" * depth + "]" * depth + "}"
    find_repeated_calls([call(arguments)] * 3, 3)
    messages = [GREETING, call(arguments), {"role": "tool", "content": "?"}, GREETING]
    with running(scripted("Hi.")) as client:
        reply = client.post("/v1/chat/completions", json={"messages": messages})
    assert reply.status_code in (200, 400)


def test_other_spellings_are_the_same_call() -> None:
    assert find_repeated_calls([call('{"a": 1}'), call('{"a":1.0}')], 2) == [("f", 2)]
    talk = [call('{"a": 1, "b": 2}'), call({"b": 2.0, "a": 1}), call({"a": 1})]
    assert find_repeated_calls(talk, 3) == []
    assert find_repeated_calls([*talk, call('{"b":2,"a":1}')], 3) == [("f", 3)]
    assert find_repeated_calls([call("{"), call("{")], 2) == [("f", 2)]


def test_calls_before_the_last_message_of_the_user_do_not_count() -> None:
    assert find_repeated_calls([call("{}"), call("{}"), GREETING, call("{}")], 2) == []


def test_log_metrics_and_reply(caplog: pytest.LogCaptureFixture) -> None:
    messages: list[dict[str, object]] = [GREETING]
    for number in range(3):
        result = {"role": "tool", "tool_call_id": f"call_{number}", "content": "?"}
        messages += [call(json.dumps({"x": "1"}), number), result]
    body = {"messages": messages, "tools": [tool("f", {"x": {"type": "string"}})]}
    with running(scripted("Hi.")) as client, caplog.at_level(logging.WARNING):
        reply = client.post("/v1/chat/completions", json=body).json()
        metrics = client.get("/metrics").text
    assert reply["constrained"]["repeated_calls"] == [{"name": "f", "count": 3}]
    assert "constrained_repeated_calls_total 1.0" in metrics
    assert "same call of f 3 times" in caplog.text
