"""Responses over HTTP: what goes in, what comes out, streamed and not."""

import json
from typing import Any

import httpx
import pytest

from constrained import load
from server.settings import Settings
from tests.scripted_model import OPENED, scripted
from tests.server.dialects.responses.response_client import (
    FLAT_PING,
    RESPONSES,
    ask,
    events_of,
    lasting,
    refuse,
)
from tests.server.running_server import Json, needs_own_engine, running
from tests.templates import OPEN, PAINT, WRITE, hermes_call, tool

FLAT_PAINT = {"type": "function", **PAINT["function"]}


@needs_own_engine
def test_a_text(plain: httpx.Client) -> None:
    body = ask(plain, metadata={"a": "b"}, temperature=0)
    assert body["object"] == "response"
    assert body["id"].startswith("resp_")
    assert body["status"] == "completed"
    (message,) = body["output"]
    part = {"type": "output_text", "text": "Hello there, friend.", "annotations": []}
    assert message == {
        "type": "message",
        "id": message["id"],
        "role": "assistant",
        "status": "completed",
        "content": [{**part, "logprobs": []}],
    }
    assert message["id"].startswith("msg_")
    usage = body["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert type(usage["input_tokens_details"]["cached_tokens"]) is int
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    assert body["error"] is body["incomplete_details"] is body["instructions"] is None
    assert body["metadata"] == {"a": "b"}
    assert body["temperature"] == 0
    assert body["tools"] == []
    assert body["tool_choice"] == "auto"
    assert body["store"] is body["parallel_tool_calls"] is True
    assert body["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert body["completed_at"] >= body["created_at"]
    assert "constrained" not in body


def test_a_call_is_typed(painter: httpx.Client) -> None:
    body = ask(painter, tools=[FLAT_PAINT])
    message, call = body["output"]
    assert message["content"][0]["text"] == "I paint."
    assert call["type"] == "function_call"
    assert call["id"].startswith("fc_")
    assert call["call_id"].startswith("call_")
    assert len(call["call_id"]) == len("call_") + 9
    assert call["name"] == "paint"
    assert json.loads(call["arguments"]) == {"color": "red", "glossy": True}
    assert call["status"] == "completed"
    assert body["tools"] == [{**FLAT_PAINT, "description": None, "strict": None}]


def test_reasoning_is_an_item_of_its_own(thinker: httpx.Client) -> None:
    body = ask(thinker, reasoning={"effort": "high", "summary": "auto"})
    thought, message = body["output"]
    assert thought["type"] == "reasoning"
    assert thought["id"].startswith("rs_")
    assert thought["summary"] == []
    assert thought["content"] == [{"type": "reasoning_text", "text": "I wonder."}]
    assert "encrypted_content" not in thought
    assert message["content"][0]["text"] == "Hello."
    assert body["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}


def test_sealed_reasoning_comes_back(thinker: httpx.Client) -> None:
    body = ask(thinker, store=False, include=["reasoning.encrypted_content"])
    thought, message = body["output"]
    sealed = {key: thought[key] for key in ("type", "id", "summary", "encrypted_content")}
    next_input = [{"role": "user", "content": "Hello"}, sealed, message]
    next_input.append({"role": "user", "content": "Again"})
    second = ask(thinker, next_input)
    cached = second["usage"]["input_tokens_details"]["cached_tokens"]
    assert cached >= body["usage"]["total_tokens"] - 1
    bad = {**sealed, "encrypted_content": sealed["encrypted_content"][:-8]}
    error = refuse(thinker, [next_input[0], bad, *next_input[2:]])
    assert error["param"] == "/input/1/encrypted_content"


def test_events_of_a_text(plain: httpx.Client) -> None:
    events = events_of(plain)
    types = [event["type"] for event in events]
    deltas = types.count("response.output_text.delta")
    assert deltas > 1
    assert types == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * deltas,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert events[0]["response"]["output"] == []
    assert events[0]["response"]["status"] == "in_progress"
    assert events[2]["item"]["content"] == []


def test_a_stream_has_no_done_line(plain: httpx.Client) -> None:
    with plain.stream("POST", RESPONSES, json={"input": "Hello", "stream": True}) as response:
        text = response.read().decode()
    assert text.startswith('event: response.created\ndata: {"type":"response.created"')
    assert "[DONE]" not in text


@pytest.mark.parametrize(
    "choice",
    [
        "auto",
        "none",
        "required",
        {"type": "function", "name": "paint"},
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "paint"}],
        },
    ],
)
def test_a_stream_says_the_same(painter: httpx.Client, choice: Any) -> None:
    body: Json = {"tools": [FLAT_PAINT, FLAT_PING], "tool_choice": choice, "temperature": 0}
    events = events_of(painter, **body)
    whole = ask(painter, **body)
    assert lasting(events[-1]["response"]) == lasting(whole)
    assert whole["tool_choice"] == choice
    calls = [item["name"] for item in whole["output"] if item["type"] == "function_call"]
    assert len(calls) == (choice != "none")
    if isinstance(choice, dict):
        assert calls == ["paint"]
    texts = [item for item in whole["output"] if item["type"] == "message"]
    assert bool(texts) == (choice in ("auto", "none"))


def test_parallel_calls_can_be_off() -> None:
    call = hermes_call("ping")
    with running(scripted(call + "\n" + call)) as client:
        tools = [{**FLAT_PING, "repeatable": True}]
        both = ask(client, tools=tools, parallel_tool_calls=True)["output"]
        one = ask(client, tools=tools, parallel_tool_calls=False)
    assert [item["type"] for item in both] == ["function_call"] * 2
    assert len({item["call_id"] for item in both}) == 2
    assert [item["type"] for item in one["output"]] == ["function_call"]
    assert one["parallel_tool_calls"] is False


def test_an_earlier_response_is_gone_on_from(plain: httpx.Client) -> None:
    first = ask(plain, "Tell me of the sea, at some length.", instructions="Be kind.")
    second = ask(plain, "More", previous_response_id=first["id"], instructions="Be kind.")
    usage = second["usage"]
    cached = usage["input_tokens_details"]["cached_tokens"]
    assert cached >= first["usage"]["total_tokens"] - 1  # all but the new input
    assert usage["input_tokens"] > cached
    assert second["previous_response_id"] == first["id"]
    items = plain.get(f"{RESPONSES}/{second['id']}/input_items?order=asc").json()["data"]
    assert [item["role"] for item in items] == ["user", "assistant", "user"]
    third = ask(plain, "And?", previous_response_id=second["id"], instructions="Be kind.")
    assert third["usage"]["input_tokens_details"]["cached_tokens"] > cached


def test_calls_are_gone_on_from() -> None:
    said = "Hm.\n</think>\n\n" + hermes_call("paint", '{"color": "red", "glossy": true}')
    done = "Good.\n</think>\n\nDone."
    with running(scripted(said, done, source=OPEN, turn=OPENED)) as client:
        first = ask(client, tools=[FLAT_PAINT])
        call = first["output"][-1]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
        chained = ask(client, [result], tools=[FLAT_PAINT], previous_response_id=first["id"])
        told = [{"role": "user", "content": "Hello"}, *first["output"], result]
        again = ask(client, told, tools=[FLAT_PAINT])
    for body in (chained, again):
        assert body["output"][-1]["content"][0]["text"] == "Done."
        cached = body["usage"]["input_tokens_details"]["cached_tokens"]
        assert cached >= first["usage"]["total_tokens"] - 1
    assert chained["usage"]["input_tokens"] == again["usage"]["input_tokens"]


def test_instructions_are_not_carried_over() -> None:
    seen = '{"weather": "rain"}'
    with running(scripted(seen), Settings(log_prompts=True)) as client:
        first = ask(client, instructions="Be very brief and very kind to me, please.")
        longer = first["usage"]["input_tokens"]
        second = ask(client, "H", previous_response_id=first["id"])
        assert second["instructions"] is None
        replay = [{"role": "user", "content": "Hello"}, *first["output"]]
        replay.append({"role": "user", "content": "H"})
        assert ask(client, replay)["usage"]["input_tokens"] == second["usage"]["input_tokens"]
        assert second["usage"]["input_tokens"] < longer + 60


def test_unknown_earlier_responses(plain: httpx.Client) -> None:
    error = refuse(plain, previous_response_id="resp_x")
    assert error["code"] == "previous_response_not_found"
    assert error["param"] == "/previous_response_id"
    unkept = ask(plain, store=False)
    assert unkept["store"] is False
    assert refuse(plain, previous_response_id=unkept["id"])["code"].startswith("previous")
    assert plain.get(f"{RESPONSES}/{unkept['id']}").status_code == 404


def test_a_cut_text_is_incomplete(plain: httpx.Client) -> None:
    body = ask(plain, max_output_tokens=5)
    assert body["status"] == "incomplete"
    assert body["incomplete_details"] == {"reason": "max_output_tokens"}
    assert body["output"][0]["status"] == "incomplete"
    assert body["output"][0]["content"][0]["text"] == "Hello"
    assert body["completed_at"] is None
    events = events_of(plain, max_output_tokens=5)
    assert events[-1]["type"] == "response.incomplete"
    assert lasting(events[-1]["response"]) == lasting(body)


def test_a_call_that_was_closed_for_want_of_tokens_is_incomplete() -> None:
    flat = {"type": "function", **WRITE["function"]}
    text = " ".join(map(str, range(100)))
    with running(scripted(hermes_call("write", json.dumps({"text": text})))) as client:
        body = ask(client, tools=[flat])
    assert body["status"] == "incomplete"
    (call,) = body["output"]
    assert call["status"] == "incomplete"
    assert text.startswith(json.loads(call["arguments"])["text"])


FORMATS: list[tuple[str, Json]] = [
    ('{"a": 1}', {"type": "json_object"}),
    ('{"a": 1}', {"type": "json_schema", "name": "n", "schema": {"const": {"a": 1}}}),
    ("any text", {"type": "text"}),
]


@pytest.mark.parametrize(("text", "format"), FORMATS)
@pytest.mark.parametrize("tools", [[], [FLAT_PING]])
def test_formats(text: str, format: Json, tools: list[Json]) -> None:
    with running(scripted(text)) as client:
        body = ask(client, text={"format": format, "verbosity": "low"}, tools=tools)
    assert body["output"][0]["content"][0]["text"] == text
    assert body["text"]["verbosity"] == "low"
    assert body["text"]["format"].items() >= format.items()


def test_a_format_may_be_passed_by_for_a_call() -> None:
    format = {"type": "json_schema", "name": "n", "schema": {"type": "integer"}}
    with running(scripted(hermes_call("ping"))) as client:
        body = ask(client, text={"format": format}, tools=[FLAT_PING])
    assert [item["type"] for item in body["output"]] == ["function_call"]


def test_logprobs_spell_the_message(thinker: httpx.Client) -> None:
    body: Json = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    whole = ask(thinker, **body)
    part = whole["output"][-1]["content"][0]
    assert bytes(byte for token in part["logprobs"] for byte in token["bytes"]) == b"Hello."
    assert all(len(token["top_logprobs"]) == 2 for token in part["logprobs"])
    events = events_of(thinker, **body)
    deltas = [e for e in events if e["type"] == "response.output_text.delta"]
    assert [token for delta in deltas for token in delta["logprobs"]] == part["logprobs"]
    assert whole["top_logprobs"] == 2


def test_a_reply_that_does_not_fit_fails() -> None:
    never = {"type": "string", "maxLength": 5, "pattern": "^(?!()\\1)"}  # nothing fits
    unfit = tool("f", {"n": never})["function"]
    with running(scripted("So." + hermes_call("f", '{"n": "a"}'))) as client:
        body: Json = {"tools": [{"type": "function", **unfit}]}
        error = refuse(client, status=422, **body)
        assert error["code"] == "reply_does_not_fit"
        events = events_of(client, **body)
        failed = events[-1]["response"]
        assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
        assert events[-2]["code"] == "reply_does_not_fit"
        assert failed["status"] == "failed"
        assert failed["error"]["code"] == "server_error"
        assert failed["output"][0]["content"][0]["text"] == "So."
        assert client.get(f"{RESPONSES}/{failed['id']}").json() == failed
        error = refuse(client, previous_response_id=failed["id"])
        assert "failed" in error["message"]


def test_the_model_of_the_package_goes_on_from_a_response() -> None:
    with running(lambda: load(threads=1)) as client:
        flat = {"type": "function", **WRITE["function"]}
        body: Json = {"tools": [flat], "temperature": 0, "seed": 1}
        first = ask(client, "Write a note.", tool_choice="required", **body)
        call = first["output"][-1]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
        second = ask(client, [result], previous_response_id=first["id"], **body)
    cached = second["usage"]["input_tokens_details"]["cached_tokens"]
    assert cached >= first["usage"]["total_tokens"] - 1


def test_the_tokens_of_a_prompt_are_counted(plain: httpx.Client) -> None:
    first = ask(plain)
    for more in ({}, {"tools": [FLAT_PAINT]}, {"previous_response_id": first["id"]}):
        counted = plain.post(f"{RESPONSES}/input_tokens", json={"input": "Hello", **more}).json()
        expected = ask(plain, **more)["usage"]["input_tokens"]
        assert counted == {"object": "response.input_tokens", "input_tokens": expected}
    refused = plain.post(f"{RESPONSES}/input_tokens", json={"input": 5})
    assert refused.status_code == 400
