"""Responses over HTTP: what is refused, and what is said to be ignored."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.scripted_model import scripted
from tests.server.dialects.responses.response_client import FLAT_PING, RESPONSES, refuse
from tests.server.running_server import Json, needs_own_engine, running


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    with running(scripted("Hello there, friend.")) as client:
        yield client


@needs_own_engine
def test_what_is_not_done_as_asked_is_said(plain: httpx.Client) -> None:
    body = {"input": "Hi", "truncation": "auto", "frobnicate": 1, "user": "me"}
    response = plain.post(RESPONSES, json=body)
    assert response.headers["x-ignored-fields"] == "frobnicate"
    said = response.json()
    assert said["constrained"] == {"ignored_fields": ["frobnicate"]}
    assert said["truncation"] == "auto"
    assert said["user"] == "me"


def message(**fields: Any) -> Json:
    return {"type": "message", "role": "user", "content": "Hi", **fields}


IMAGE = {"type": "input_image", "image_url": "data:,"}
CALL = {"type": "function_call", "call_id": "call_abcdefghi", "name": "ping", "arguments": "{}"}
MCP_CALL = {"type": "mcp_call", "id": "a", "server_label": "s", "name": "n", "arguments": "{}"}
REFUSED: list[tuple[Json, str, str]] = [
    ({"input": ""}, "/input", "no input"),
    ({"input": []}, "/input", "no input"),
    ({"input": [message(role="robot")]}, "/input/0/role", "robot"),
    ({"input": [message(content=None)]}, "/input/0/content", "no content"),
    ({"input": [message(), message(content=[IMAGE])]}, "/input/1/content/0", "input_image"),
    ({"input": [message(content=[{"type": "input_file"}])]}, "/input/0/content/0", "input_file"),
    ({"input": [{"type": "compaction", "id": "c_1"}]}, "/input/0/type", "compaction"),
    ({"input": [{**CALL, "arguments": 1}]}, "/input/0/arguments", "JSON"),
    ({"input": [{**CALL, "name": None}]}, "/input/0/name", "text"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "/input/0/call_id", "text"),
    (
        {"input": [{"type": "function_call_output", "call_id": "c", "output": [{}]}]},
        "/input/0/output/0",
        "None",
    ),
    ({"input": [{"type": "reasoning", "content": [{}]}]}, "/input/0/content/0/text", "no text"),
    ({"input": [{**MCP_CALL, "approval_request_id": []}]}, "/input/0/approval_request_id", "text"),
    ({"tools": [{"type": "custom", "name": ""}]}, "/tools/0/name", "no name"),
    ({"tools": [{"type": "function"}]}, "/tools/0/name", "no name"),
    ({"tool_choice": "sometimes"}, "/tool_choice", "not known"),
    ({"tool_choice": {"type": "web_search_preview"}}, "/tool_choice", "not known"),
    (
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": ["x"]}]}},
        "/tool_choice",
        "names",
    ),
    ({"tool_choice": "required"}, "/tool_choice", "no tool"),
    ({"tools": [FLAT_PING], "tool_choice": {"type": "function", "name": "x"}}, "/tool_choice", "x"),
    ({"text": {"format": {"type": "xml"}}}, "/text/format", "not known"),
    (
        {"text": {"format": {"type": "json_schema", "schema": {"type": "nothing"}}}},
        "/text/format/schema/type",
        "nothing",
    ),
    ({"background": True}, "/background", "background"),
    ({"conversation": "conv_1"}, "/conversation", "previous_response_id"),
    ({"prompt": {"id": "p"}}, "/prompt", "instructions"),
    ({"temperature": -1}, "/temperature", "0"),
    ({"top_logprobs": 21}, "/top_logprobs", "20"),
    ({"max_output_tokens": 0}, "/max_output_tokens", "1"),
]


@pytest.mark.parametrize(("body", "where", "word"), REFUSED)
def test_what_is_refused_says_where(plain: httpx.Client, body: Json, where: str, word: str) -> None:
    error = refuse(plain, **body)
    assert error["type"] == "invalid_request_error"
    assert error["param"] == where
    assert word in error["message"]


@pytest.mark.parametrize(
    "field",
    [
        '"metadata": {"a": "\\ud800"}',
        '"input": [{"role": "user", "content": "Hi", "id": "\\ud800"}]',
        '"text": {"format": {"type": "text", "x": NaN}}',
        '"temperature": Infinity',
        '"tools": [{"type": "function", "name": "a", "parameters": {"x": "\\ud800"}}]',
    ],
)
def test_what_json_cannot_hold_is_refused(plain: httpx.Client, field: str) -> None:
    content = f'{{"input": "Hi", "max_output_tokens": 5, {field}}}'
    headers = {"content-type": "application/json"}
    response = plain.post(RESPONSES, content=content, headers=headers)
    assert response.status_code == 400, response.text


def test_background_that_is_off_is_no_fault(plain: httpx.Client) -> None:
    response = plain.post(RESPONSES, json={"input": "Hi", "background": False, "prompt": None})
    assert response.status_code == 200
    assert "x-ignored-fields" not in response.headers


def test_a_search_for_tools_is_left_out_by_name_and_the_prompt_has_all_tools(
    plain: httpx.Client,
) -> None:
    deferred = {**FLAT_PING, "defer_loading": True}
    search = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}
    counts: list[int] = []
    for tools in ([FLAT_PING], [deferred, search], [deferred, {"type": "tool_search"}]):
        response = plain.post(f"{RESPONSES}/input_tokens", json={"input": "Hi", "tools": tools})
        counts.append(response.json()["input_tokens"])
    assert len(set(counts)) == 1
    assert response.headers["x-skipped-tools"] == "tool_search"
