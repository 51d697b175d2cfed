"""Calls that a conversation has again and again."""

import pytest

from constrained.prompt.messages import normalise
from server.turns.repeated_calls import find_repeated_calls
from tests.scripted_model import scripted
from tests.server.running_server import running


def call(arguments: str) -> dict[str, object]:
    function = {"name": "f", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}


@pytest.mark.parametrize("arguments", ["[" * 100_000, "[" * 100_000 + "]" * 100_000])
def test_arguments_that_nest_deeply_are_compared_as_they_are_spelled(arguments: str) -> None:
    messages = [call(arguments)] * 3
    assert find_repeated_calls(messages, 3) == [("f", 3)]
    assert normalise([call("{}"), call(arguments)])
    with running(scripted("Hi.")) as client:
        body = {"messages": [{"role": "user", "content": "Hello"}, *messages]}
        assert client.post("/v1/chat/completions", json=body).status_code == 400
        assert client.get("/health").status_code == 200


def test_other_spellings_are_the_same_call() -> None:
    assert find_repeated_calls([call('{"a": 1}'), call('{"a":1.0}')], 2) == [("f", 2)]
