"""Requests as the SDKs of all languages write them: null in every field that was not set, lists of
parts for texts, fields of a beta."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, ValidationError

import server.app
from server.dialects.ollama.request import OllamaRequest
from tests.scripted_model import scripted
from tests.server.dialects.chat.chat_client import CHAT, HELLO, SHORT
from tests.server.running_server import Json, running

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
OLLAMA_CHAT, OLLAMA_GENERATE = "/api/chat", "/api/generate"
CALL = {"type": "function_call", "call_id": "c1", "name": "ping", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
SHORT_RESPONSE: Json = {"max_output_tokens": 3, "store": False}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(scripted("Hello")) as served:
        yield served


def list_models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The classes of the server that validate something of a client."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith(server.__name__):
            yield kind
        yield from list_models(kind)


def test_null_is_no_value_of_any_field_that_may_be_left_out() -> None:
    refusing: set[str] = set()
    kinds = set(list_models(BaseModel)) - {OllamaRequest}  # which is abstract
    assert len(kinds) > 20
    for kind in kinds:
        for name, field in kind.model_fields.items():
            if field.is_required():
                continue
            try:
                kind.__pydantic_validator__.validate_assignment(kind.model_construct(), name, None)
            except ValidationError:
                refusing.add(f"{kind.__name__}.{name}")
    assert refusing == set()


WRITTEN_OUT: list[tuple[str, Json]] = [
    (CHAT, {**SHORT, "functions": None, "function_call": None, "unknown": None, "tools": None}),
    (CHAT, {**SHORT, "functions": [], "stop": None, "modalities": ["text"], "audio": None}),
    (CHAT, {"messages": HELLO, "max_completion_tokens": -1}),
    (CHAT, {**SHORT, "max_tokens": 3.0, "n": 1.0, "seed": 1.0, "metadata": {}, "store": True}),
    (RESPONSES, {**SHORT_RESPONSE, "input": [{"type": None, "role": "user", "content": "Hi"}]}),
    (RESPONSES, {**SHORT_RESPONSE, "input": "Hi", "text": {"format": None, "verbosity": None}}),
    (MESSAGES, {**SHORT, "system": None, "thinking": None, "container": None, "betas": None}),
    (OLLAMA_CHAT, {"model": "demo", "messages": None, "options": None, "stream": False}),
    (OLLAMA_GENERATE, {"model": "demo", "prompt": None, "system": None, "stream": False}),
]


@pytest.mark.parametrize(("path", "body"), WRITTEN_OUT)
def test_fields_that_say_nothing_are_not_missed(
    client: httpx.Client, path: str, body: Json
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    assert "x-ignored-fields" not in response.headers


def test_a_stream_takes_options_that_are_null(client: httpx.Client) -> None:
    options = {"include_usage": None, "include_obfuscation": None}
    body: Json = {**SHORT, "stream": True, "stream_options": options}
    with client.stream("POST", CHAT, json=body) as response:
        assert response.status_code == 200
        assert '"usage":{' not in response.read().decode()


def test_a_search_that_openai_has_run_is_left_out_by_name(client: httpx.Client) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "call_id": None}
    response = client.post(RESPONSES, json={**SHORT_RESPONSE, "input": [search, *HELLO]})
    assert response.status_code == 200, response.text
    assert response.headers["x-ignored-fields"] == "input/0 (web_search_call)"


MESSAGE: Json = {"type": "message", "role": "assistant", "status": "completed", "id": "msg_1"}
CITED: Json = {"type": "output_text", "text": "A", "annotations": [{"type": "url_citation"}]}
TOOL: Json = {"type": "function", "name": "ping", "async": True}
DIRECT: Json = {**TOOL, "allowed_callers": ["direct"]}
NAMED: list[tuple[str, Json, str]] = [
    (CHAT, {"reasoning": {"exclude": True, "summary": "auto"}}, "reasoning.exclude"),
    (
        CHAT,
        {"stream_options": {"include_obfuscation": True, "continuous_usage_stats": True}},
        "stream_options.continuous_usage_stats",
    ),
    (CHAT, {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}, ""),
    (
        CHAT,
        {"messages": [*HELLO, {"role": "assistant", "audio": {"id": "a"}}, *HELLO]},
        "messages/1/audio",
    ),
    (RESPONSES, {"reasoning": {"mode": "pro", "summary": "auto"}}, "reasoning.mode"),
    (RESPONSES, {"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options.prewarm"),
    (RESPONSES, {"context_management": [{"type": "compaction"}]}, "context_management"),
    (RESPONSES, {"tools": [TOOL]}, "tools.async"),
    (
        RESPONSES,
        {"tools": [{"type": "namespace", "name": "a", "description": "b", "tools": [DIRECT]}]},
        "tools.async, tools.allowed_callers",
    ),
    (
        RESPONSES,
        {"input": [*HELLO, {**MESSAGE, "content": [CITED]}, *HELLO]},
        "input/1 (annotations)",
    ),
    (MESSAGES, {"thinking": {"type": "disabled", "more": 1}}, "thinking.more"),
]


@pytest.mark.parametrize(("path", "fields", "names"), NAMED)
def test_what_has_no_effect_is_named(
    client: httpx.Client, path: str, fields: Json, names: str
) -> None:
    body = {**SHORT_RESPONSE, "input": "Hi"} if path == RESPONSES else SHORT
    response = client.post(path, json={**body, **fields})
    assert response.status_code == 200, response.text
    assert response.headers.get("x-ignored-fields", "") == names


def test_a_refusal_is_what_the_assistant_said(client: httpx.Client) -> None:
    counts = set[int]()
    said = ({"content": None, "refusal": "I cannot do that."}, {"content": "I cannot do that."})
    for fields in said:
        messages = [*HELLO, {"role": "assistant", **fields}, *HELLO]
        response = client.post(f"{CHAT}/input_tokens", json={**SHORT, "messages": messages})
        counts.add(response.json()["input_tokens"])
    assert len(counts) == 1


REFUSED: list[tuple[str, Json, str]] = [
    (RESPONSES, {"input": [*HELLO, {**CALL, "call_id": None}, RESULT]}, "/input/1/call_id"),
    (
        RESPONSES,
        {"input": [*HELLO, {name: CALL[name] for name in ("type", "name", "arguments")}, RESULT]},
        "/input/1/call_id",
    ),
    (RESPONSES, {"input": None}, "/input"),
    (CHAT, {**SHORT, "modalities": ["text", "audio"]}, "/modalities/1"),
    (CHAT, {**SHORT, "functions": [{"name": "ping"}]}, "/functions"),
]


@pytest.mark.parametrize(("path", "body", "place"), REFUSED)
def test_what_would_be_lost_is_refused(
    client: httpx.Client, path: str, body: Json, place: str
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 400, response.text
    error: Any = response.json()["error"]
    assert error["param"] == place
