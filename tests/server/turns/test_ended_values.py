"""Every dialect tells which values of a reply were ended because they repeated themselves."""

from typing import Any

import pytest

from constrained.agent.model import Model
from server.settings import Settings
from tests.scripted_model import OPENED, scripted
from tests.server.running_server import running
from tests.templates import hermes_call

LIST = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "string"}}},
    "required": ["items"],
    "additionalProperties": False,
}
ASK = {"messages": [{"role": "user", "content": "Go."}]}
OPENAI = {"type": "function", "function": {"name": "note", "parameters": LIST}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "list", "schema": LIST}}
LOOP = '{"items": ["x"' + ', "x"' * 999
PLACE = "/tool_calls/0/arguments/items"
BODIES: list[tuple[str, dict[str, Any], str]] = [
    (
        "/v1/chat/completions",
        {**ASK, "max_tokens": 300, "tools": [OPENAI], "tool_choice": "required"},
        PLACE,
    ),
    (
        "/v1/messages",
        {
            **ASK,
            "max_tokens": 300,
            "tools": [{"name": "note", "input_schema": LIST}],
            "tool_choice": {"type": "any"},
        },
        PLACE,
    ),
    (
        "/v1/responses",
        {
            "input": "Go.",
            "max_output_tokens": 300,
            "tools": [{"type": "function", "name": "note", "parameters": LIST}],
            "tool_choice": "required",
        },
        PLACE,
    ),
    ("/v1/chat/completions", {**ASK, "max_tokens": 300, "response_format": FORMAT}, "/content"),
    (
        "/api/chat",
        {**ASK, "stream": False, "format": LIST, "options": {"num_predict": 300}},
        "/content",
    ),
]


def make_model(place: str) -> Model:
    text = LOOP if place == "/content" else hermes_call("note", LOOP)
    return scripted(text, turn=OPENED)


@pytest.mark.parametrize(("path", "body", "place"), BODIES)
def test_a_reply_tells_which_values_were_ended(path: str, body: dict[str, Any], place: str) -> None:
    with running(make_model(place)) as client:
        response = client.post(path, json={**body, "temperature": 0})
        assert response.status_code == 200, response.text
        (ended,) = response.json()["constrained"]["ended_values"]
    assert ended["where"] == place
    assert ended["tokens"] < 200


def say(body: dict[str, Any], path: str, bound: int | None) -> dict[str, Any]:
    """The same request with a bound."""
    if path.startswith("/api/"):
        return {**body, "options": {**body.get("options", {}), "max_repetition": bound}}
    return {**body, "max_repetition": bound}


def read_ended(client: Any, path: str, body: dict[str, Any]) -> list[int]:
    """The places of the values that were ended, in tokens."""
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    notes = response.json().get("constrained", {})
    assert "ignored_fields" not in notes
    return [ended["tokens"] for ended in notes.get("ended_values", ())]


@pytest.mark.parametrize(("path", "body", "place"), BODIES)
def test_requests_and_operator_set_the_bound(path: str, body: dict[str, Any], place: str) -> None:
    settings = Settings(max_repetition=20, max_repetition_limit=30)
    with running(make_model(place), settings) as client:
        (default,) = read_ended(client, path, body)
        assert read_ended(client, path, say(body, path, 20)) == [default]
        (later,) = read_ended(client, path, say(body, path, 30))
        assert default < later < default + 20
        for wrong in (31, None):
            refused = client.post(path, json=say(body, path, wrong))
            assert refused.status_code == 400
            assert "raise --max-repetition-limit" in refused.text
            pointer = "/options/max_repetition" if path.startswith("/api/") else "/max_repetition"
            assert pointer in refused.text


@pytest.mark.parametrize(("path", "body", "place"), BODIES[::3])
def test_null_is_any_repetition(path: str, body: dict[str, Any], place: str) -> None:
    with running(make_model(place)) as client:
        assert read_ended(client, path, say(body, path, None)) == []
        refused = client.post(path, json=say(body, path, 0))
    assert refused.status_code == 400
    assert "max_repetition" in refused.text


def test_the_default_is_within_the_limit() -> None:
    assert Settings(max_repetition=20, max_repetition_limit=30).default_repetition == 20
    assert Settings(max_repetition_limit=30).default_repetition == 30
    assert Settings(max_repetition=None, max_repetition_limit=30).default_repetition == 30
    assert Settings(max_repetition=None).default_repetition is None


def test_each_choice_is_told_apart() -> None:
    path, body, place = BODIES[0]
    with running(make_model(place)) as client:
        reply = client.post(path, json={**body, "n": 2}).json()
    assert [ended["choice"] for ended in reply["constrained"]["ended_values"]] == [0, 1]
