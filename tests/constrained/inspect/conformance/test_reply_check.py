"""What is found in the replies of servers."""

import json
from typing import Any

import pytest

from constrained.inspect.chat_server import HttpAnswer, WrongReply
from constrained.inspect.conformance.reply_check import (
    find_errors,
    read_streamed_reply,
    read_whole_reply,
)
from constrained.inspect.conformance.server_check import TOOLS

FITS = json.dumps({"city": "Paris", "unit": "celsius", "days": 3})


def call(arguments: str = FITS, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", "get_weather")
    told = {"id": "a", "type": "function", **fields}
    return {**told, "function": {"name": name, "arguments": arguments}}


def reply(*calls: dict[str, Any], content: str = "", reason: str = "tool_calls") -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    return {"choices": [{"message": message, "finish_reason": reason}]}


def test_a_right_reply_has_no_fault() -> None:
    body = reply(call(), call(id="b"))
    assert list(find_errors(read_whole_reply(body), TOOLS)) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (reply(call('{"city": 1}')), "call 0: "),
        (reply(call('{"city"')), "call 0: its arguments are not JSON"),
        (reply(call(name="other")), "call 0: there is no tool 'other'"),
        (reply(call(), call()), "the ids of the calls are not distinct strings"),
        (reply(reason="tool_calls"), "finish_reason is 'tool_calls', although there is no call"),
        (reply(content="<tool_call>", reason="stop"), "the content contains '<tool_call>'"),
        (reply(reason="done"), "finish_reason is 'done'"),
    ],
)
def test_each_fault_of_a_reply_is_found(body: dict[str, Any], fault: str) -> None:
    found = list(find_errors(read_whole_reply(body), TOOLS))
    assert found
    assert found[0][1].startswith(fault)


def test_a_call_that_was_cut_may_be_half() -> None:
    body = reply(call(), call('{"city"', id="b"), reason="length")
    assert list(find_errors(read_whole_reply(body), TOOLS)) == []


def chunk(*calls: dict[str, Any], reason: str | None = None, **delta: Any) -> dict[str, Any]:
    if calls:
        delta["tool_calls"] = list(calls)
    return {"choices": [{"delta": delta, "finish_reason": reason}]}


def part(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": arguments}
    if "name" in fields:
        function["name"] = fields.pop("name")
    return {"index": index, "function": function, **fields}


BEGUN = chunk(part(0, "", id="a", name="f"))
DONE = chunk(reason="tool_calls")


def test_chunks_add_up() -> None:
    chunks = [chunk(content="Hi"), BEGUN, chunk(part(0, "{")), chunk(part(0, "}")), DONE]
    told = read_streamed_reply(chunks)
    assert (told.content, told.reason) == ("Hi", "tool_calls")
    assert [(one.id, one.name, one.arguments) for one in told.calls] == [("a", "f", "{}")]


@pytest.mark.parametrize(
    ("chunks", "fault"),
    [
        ([BEGUN, BEGUN, DONE], "call 0 begins twice"),
        (
            [BEGUN, chunk(part(2, "{}", id="b", name="f")), DONE],
            "index 2 appears although only 1 calls",
        ),
        ([chunk(part(0, "{}")), DONE], "call 0 begins without a name or an id"),
        ([BEGUN], "the stream has 0 finish_reasons"),
        ([BEGUN, DONE, DONE], "the stream has 2 finish_reasons"),
        ([{"choices": [{}]}], "chunk 0 has an unexpected form"),
    ],
)
def test_each_fault_of_a_stream_is_found(chunks: list[dict[str, Any]], fault: str) -> None:
    with pytest.raises(WrongReply, match=fault):
        read_streamed_reply(chunks)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("data: {}\n\n", "does not end with data: "),
        ("data: [DONE]\n\ndata: {}\n\n", "continues after"),
        ("data: oops\n\ndata: [DONE]\n\n", "is not JSON"),
    ],
)
def test_what_is_no_stream_is_found(text: str, fault: str) -> None:
    with pytest.raises(WrongReply, match=fault):
        HttpAnswer(200, text).read_chunks()
