"""Events of Responses: whatever a turn is, they nest, count, and add up to the response."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.errors import ReplyError
from constrained.mask.logprobs import TokenDrawn
from constrained.model.reply import Reply, Usage
from constrained.prompt.job import Job
from grammars.turn import (
    ArgumentsDelta,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    ReasoningDelta,
    ToolCall,
)
from server.dialects.common.sealed_reasoning import unseal
from server.dialects.responses.items import read_input
from server.dialects.responses.reply import ResponsesWriter
from server.settings import Settings
from server.turns.active_request import TurnEvent
from server.turns.compiled_request import CompiledRequest
from server.turns.service import Service
from server.turns.turn_request import TurnRequest
from tests.scripted_model import OPENED, scripted
from tests.server.dialects.responses.response_client import ask, events_of, lasting
from tests.server.running_server import Json, running
from tests.templates import OPEN, WRITE, hermes_call

USAGE = Usage(7, 5, 1, reasoning_tokens=2, cached_tokens=3)


@pytest.fixture(scope="module")
def compiled() -> Iterator[CompiledRequest]:
    with scripted("Hi") as model:
        yield compile_job(model)


def compile_job(model: Model) -> CompiledRequest:
    """A request whose turn is told by the test."""
    job = Job([{"role": "user", "content": "Hi"}], [WRITE])
    service = Service(model, Settings())
    return CompiledRequest(service, TurnRequest(job), model.compile(job))


def reply(finish: str) -> Reply:
    return Reply("", "", (), finish, USAGE, "", "")


def drawn(text: str) -> list[TurnEvent]:
    return [TokenDrawn(byte, bytes([byte]), -0.5, ()) for byte in text.encode()]


TEXTS = st.text("añ<\n", min_size=1, max_size=4)


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """The texts of a call: name, arguments in pieces, and whether it is cut."""
    return [("call", (draw(st.lists(TEXTS, max_size=3)), draw(st.booleans())))]


PARTS = st.one_of(
    st.lists(st.tuples(st.just("reasoning"), TEXTS), min_size=1, max_size=3),
    st.lists(st.tuples(st.just("content"), TEXTS), min_size=1, max_size=3),
    calls(),
)


def tell(parts: Sequence[tuple[str, Any]], finish: str) -> tuple[list[TurnEvent], list[Json]]:
    """The events of a turn, and what its output has to come to."""
    told = list[TurnEvent]()
    items = list[Json]()
    count = 0
    for kind, value in parts:
        if kind == "call":
            pieces, is_cut = value
            told.append(CallOpened(count, "write"))
            told += [ArgumentsDelta(count, piece) for piece in pieces]
            text = "".join(pieces) or ("" if is_cut else "{}")
            told.append(CallCut("<") if is_cut else CallRead(count, ToolCall("write", {})))
            count += 1
            items.append({"type": "function_call", "text": text})
            continue
        told += drawn(value)
        told.append(ReasoningDelta(value) if kind == "reasoning" else ContentDelta(value))
        type = "reasoning" if kind == "reasoning" else "message"
        if not items or items[-1]["type"] != type:
            items.append({"type": type, "text": ""})
        items[-1]["text"] += value
    if finish == "stop" and all(item["type"] == "reasoning" for item in items):
        items.append({"type": "message", "text": ""})
    return [*told, reply(finish)], items


def write(
    compiled: CompiledRequest,
    told: Sequence[TurnEvent],
    *,
    seals: bool = False,
    shows_logprobs: bool = False,
) -> list[Json]:
    writer = ResponsesWriter(compiled, {}, seals=seals, shows_logprobs=shows_logprobs)
    return [*writer.open(), *(event for one in told for event in writer.take(0, one))]


def read_text(item: Json) -> str:
    return item.get("arguments", "".join(part["text"] for part in item.get("content", ())))


def check_nesting(events: Sequence[Json]) -> list[Json]:
    """The items that the events tell of, put together from their deltas."""
    items = list[Json]()
    is_open = False
    part = False
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        kind = event["type"].removeprefix("response.")
        if "output_index" in event:
            last = len(items) - (kind != "output_item.added")
            assert event["output_index"] == last
        if "item_id" in event:
            assert is_open
            assert event["item_id"] == items[-1]["id"]
        if "content_index" in event:
            assert event["content_index"] == 0
        match kind:
            case "output_item.added":
                assert not is_open
                assert event["item"]["status"] == "in_progress"
                assert read_text(event["item"]) == ""
                is_open, item = True, event["item"]
                items.append({"id": item["id"], "type": item["type"], "text": ""})
            case "content_part.added":
                assert not part
                assert event["part"]["text"] == ""
                part = True
            case "output_text.delta" | "reasoning_text.delta":
                assert part
                items[-1]["text"] += event["delta"]
            case "function_call_arguments.delta":
                assert not part
                items[-1]["text"] += event["delta"]
            case "output_text.done" | "reasoning_text.done":
                assert event["text"] == items[-1]["text"]
            case "function_call_arguments.done":
                assert event["arguments"] == items[-1]["text"]
            case "content_part.done":
                assert part
                assert event["part"]["text"] == items[-1]["text"]
                part = False
            case "output_item.done":
                assert is_open
                assert not part
                assert read_text(event["item"]) == items[-1]["text"]
                assert event["item"]["id"] == items[-1]["id"]
                is_open = False
                items[-1]["item"] = event["item"]
            case _:
                assert not is_open
                assert kind in ("created", "in_progress", "completed", "incomplete", "failed") or (
                    event["type"] == "error"
                )
    return items


@given(st.lists(PARTS, max_size=5), st.sampled_from(["stop", "length"]))
def test_events_add_up(
    compiled: CompiledRequest, groups: list[list[tuple[str, Any]]], finish: str
) -> None:
    told, expected = tell([part for group in groups for part in group], finish)
    events = write(compiled, told, seals=True)
    items = check_nesting(events)
    assert [{"type": item["type"], "text": item["text"]} for item in items] == expected
    response = events[-1]["response"]
    assert events[-1]["type"] == f"response.{response['status']}"
    assert response["status"] == ("completed" if finish == "stop" else "incomplete")
    assert response["output"] == [item["item"] for item in items]
    assert {event["response"]["id"] for event in events if "response" in event} == {response["id"]}
    assert events[0]["response"]["output"] == []  # what comes later does not change it
    for item in response["output"]:
        if item["type"] == "reasoning":
            assert unseal(item["encrypted_content"], "") == read_text(item)
    assert response["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 12,
    }


@given(st.lists(PARTS, max_size=5))
def test_output_is_input_again(
    compiled: CompiledRequest, groups: list[list[tuple[str, Any]]]
) -> None:
    told, _ = tell([part for group in groups for part in group], "stop")
    output = write(compiled, told)[-1]["response"]["output"]
    again = read_input(output, lambda ids: {})
    assert [read_text(item) for item in again] == [read_text(item) for item in output]
    assert [item["id"] for item in again] == [item["id"] for item in output]


@given(st.lists(PARTS, max_size=5))
def test_logprobs_are_those_of_messages(
    compiled: CompiledRequest, groups: list[list[tuple[str, Any]]]
) -> None:
    told, _ = tell([part for group in groups for part in group], "stop")
    events = write(compiled, told, shows_logprobs=True)
    for item in events[-1]["response"]["output"]:
        if item["type"] == "message":
            (part,) = item["content"]
            spelled = bytes(byte for token in part["logprobs"] for byte in token["bytes"])
            assert spelled.decode() == part["text"]
    silent = write(compiled, told)[-1]["response"]["output"]
    assert all(not item["content"][0]["logprobs"] for item in silent if item["type"] == "message")


def test_tokens_of_text_that_is_held_back_wait_for_it(compiled: CompiledRequest) -> None:
    told = [*drawn("</b>Hi<"), ContentDelta("Hi"), *drawn("i>"), ContentDelta("<i>"), reply("stop")]
    events = write(compiled, told, shows_logprobs=True)
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    shown = ["".join(token["token"] for token in delta["logprobs"]) for delta in deltas]
    assert shown == ["Hi", "<i>"]


@given(st.lists(PARTS, max_size=4))
def test_a_failure_closes_what_is_open(
    compiled: CompiledRequest, groups: list[list[tuple[str, Any]]]
) -> None:
    told, _ = tell([part for group in groups for part in group], "stop")
    writer = ResponsesWriter(compiled, {})
    events = [*writer.open(), *(event for one in told[:-1] for event in writer.take(0, one))]
    events += writer.fail(ReplyError("it does not fit", where="/a"))
    items = check_nesting(events)
    error, failed = events[-2:]
    assert error["type"] == "error"
    assert error["code"] == "reply_does_not_fit"
    assert error["param"] == "/a"
    assert failed["response"]["error"] == {"code": "server_error", "message": error["message"]}
    assert failed["response"]["output"] == [item["item"] for item in items]


TURNS = st.tuples(
    st.text("ab ñ", max_size=12),
    st.text("cd é.", max_size=12),
    st.lists(st.text('ab"ñ', max_size=6), max_size=2),
)


def spell(thought: str, text: str, writes: list[str]) -> str:
    arguments = ['{"text": "' + t.replace('"', '\\"') + '"}' for t in writes]
    return f"{thought}\n</think>\n\n{text}" + "\n".join(hermes_call("write", a) for a in arguments)


def test_a_stream_says_what_the_whole_response_says() -> None:
    turns = list[str]()

    @given(TURNS)
    def collect(turn: tuple[str, str, list[str]]) -> None:
        turns.append(spell(*turn))

    collect()
    tool = {"type": "function", **WRITE["function"]}
    for script in turns[:: max(1, len(turns) // 12)]:
        with running(scripted(script, source=OPEN, turn=OPENED)) as client:
            body: Json = {"tools": [tool], "temperature": 0, "max_output_tokens": 250}
            events = events_of(client, **body)
            whole = ask(client, **body)
        check_nesting(events)
        assert lasting(events[-1]["response"]) == lasting(whole)
