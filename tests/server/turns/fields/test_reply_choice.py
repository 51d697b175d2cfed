"""Every dialect takes the fields that choose which turn becomes the reply."""

import re
from typing import Any

import httpx
import pytest

from tests.constrained.model.trace.choosing_model import COLOURS, choosing
from tests.server.running_server import needs_own_engine, running

pytestmark = needs_own_engine

PAINT = {
    "type": "object",
    "properties": {"colour": {"enum": COLOURS}, "coats": {"enum": [1, 2]}},
    "required": ["colour", "coats"],
}
LIKELY = {"b": 0.2, "g": 0.5, "r": 0.3}
PATHS = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"]
Json = dict[str, Any]


def write(path: str, tools: dict[str, Json], *, required: bool = False, **fields: Any) -> Json:
    """A request of a dialect, with tools by name and greedy, and with fields of the choice."""
    messages = [{"role": "user", "content": "Go."}]
    functions = [{"name": name, "parameters": tools[name]} for name in tools]
    wrapped = [{"type": "function", "function": function} for function in functions]
    choice = "required" if required else "auto"
    match path:
        case "/v1/chat/completions":
            body: Json = {"messages": messages, "tools": wrapped, "tool_choice": choice}
            return (
                body | {"temperature": 0, "parallel_tool_calls": False, "max_tokens": 600} | fields
            )
        case "/v1/messages":
            given = [{"name": name, "input_schema": tools[name]} for name in tools]
            kind = "any" if required else "auto"
            forced = {"type": kind, "disable_parallel_tool_use": True}
            body = {"messages": messages, "tools": given, "tool_choice": forced}
            return body | {"temperature": 0, "max_tokens": 600} | fields
        case "/v1/responses":
            given = [{"type": "function", **function} for function in functions]
            body = {"input": "Go.", "tools": given, "tool_choice": choice}
            limits = {"parallel_tool_calls": False, "max_output_tokens": 600}
            return body | {"temperature": 0} | limits | fields
        case _:
            body = {"messages": messages, "tools": wrapped, "stream": False}
            return body | {"options": {"temperature": 0, "num_predict": 600} | fields}


def ask(client: httpx.Client, path: str, body: Json) -> tuple[Json, str]:
    """What a reply says of itself, and the reply as text."""
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    reply = response.json()
    return reply.pop("constrained"), response.text


@pytest.mark.parametrize("path", PATHS)
def test_a_question_takes_the_place_of_a_call(path: str) -> None:
    body = write(path, {"paint": PAINT}, min_confidence=0.6, unsure="ask")
    with running(choosing(LIKELY, {"1": 1})) as client:
        notes, text = ask(client, path, body)
        (call,) = notes["unsure_calls"]
        assert (call["name"], call["arguments"]["colour"]) == ("paint", "green")
        assert call["confidence"]["lowest"] == pytest.approx(0.5, abs=0.01)
        assert "confidence" not in notes
        assert re.search(r'"[^"?]+\?"', text)
        with client.stream("POST", path, json={**body, "stream": True}) as streamed:
            shown = streamed.read().decode()
    assert shown.count("paint") == shown.count('"name":"paint"')  # in the notes alone
    assert "?" in shown


@pytest.mark.parametrize("path", PATHS)
def test_calls_that_it_is_sure_of_or_that_are_the_client_s_matter_are_delivered(path: str) -> None:
    with running(choosing(LIKELY, {"1": 1})) as client:
        choices: list[Json] = [
            {"min_confidence": 0.4, "unsure": "decline"},
            {"min_confidence": 0.6},
        ]
        for fields in choices:
            notes, text = ask(client, path, write(path, {"paint": PAINT}, **fields))
            (call,) = notes["confidence"]
            assert call["confidence"]["arguments"]["colour"] == pytest.approx(0.5, abs=0.01)
            assert notes["call_probability"] > 0.9
            assert "unsure_calls" not in notes
            assert "green" in text


@pytest.mark.parametrize(
    ("path", "fields", "where"),
    [
        ("/v1/chat/completions", {"unsure": "ask"}, "/unsure"),
        ("/v1/messages", {"unsure": "shout", "min_confidence": 0.5}, "/unsure"),
        ("/v1/responses", {"min_confidence": 1.5}, "/min_confidence"),
        ("/api/chat", {"unsure": "ask"}, "/options/unsure"),
        ("/v1/chat/completions", {"min_confidence": 0.5, "n": 2}, "/min_confidence"),
    ],
)
def test_what_cannot_be(path: str, fields: Json, where: str) -> None:
    with running(choosing(LIKELY, {"1": 1})) as client:
        response = client.post(path, json=write(path, {"paint": PAINT}, **fields))
        assert response.status_code == 400, response.text
        assert where in response.text


def test_a_question_does_not_go_on_with_a_message() -> None:
    path = "/v1/chat/completions"
    begun = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "I"}]
    fields: Json = {"messages": begun, "continue_final_message": True}
    body = write(path, {"paint": PAINT}, min_confidence=0.5, unsure="ask") | fields
    with running(choosing(LIKELY, {"1": 1})) as client:
        response = client.post(path, json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "/unsure")
