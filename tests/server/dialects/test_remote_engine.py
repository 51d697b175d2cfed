"""The dialects where a remote engine draws the tokens: as if it were here, and whatever it does."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx
import pytest

from tests.constrained.remote.faulty_proxy import Faults
from tests.remote_model import sampled_elsewhere
from tests.scripted_model import BYTES, OPENED, scripted
from tests.server.running_server import Json, needs_own_engine, running
from tests.templates import hermes_call

pytestmark = needs_own_engine

STALL = 0.5  # seconds
ASK: Json = {"messages": [{"role": "user", "content": "Go."}], "max_tokens": 200}
SCHEMA: Json = {"type": "object", "properties": {"to": {"const": "you"}}, "required": ["to"]}


@dataclass(frozen=True)
class Dialect:
    """A request that asks for the call of a tool, and what shows that it was made."""

    path: str
    body: Json
    called: str
    end: str  # the end of a stream that is whole
    more: Json = field(default_factory=dict[str, Any])


FUNCTION: Json = {"type": "function", "function": {"name": "ping", "parameters": SCHEMA}}
DIALECTS = {
    "chat": Dialect(
        "/v1/chat/completions",
        {**ASK, "tools": [FUNCTION], "tool_choice": "required"},
        '"tool_calls"',
        '"finish_reason":"tool_calls"',
    ),
    "responses": Dialect(
        "/v1/responses",
        {
            "input": "Go.",
            "max_output_tokens": 200,
            "tools": [{"type": "function", "name": "ping", "parameters": SCHEMA}],
            "tool_choice": "required",
        },
        '"function_call"',
        "response.completed",
    ),
    "messages": Dialect(
        "/v1/messages",
        {
            **ASK,
            "tools": [{"name": "ping", "input_schema": SCHEMA}],
            "tool_choice": {"type": "any"},
        },
        '"tool_use"',
        "message_stop",
    ),
    "ollama": Dialect(
        "/api/chat",
        {
            **ASK,
            "tools": [FUNCTION],
            "tool_choice": "required",
            "options": {"temperature": 0},
        },
        '"tool_calls"',
        '"done":true',
        {"stream": False},
    ),
}
BROKEN = (
    "cut",
    "break off",
    "repeat",
    "lose",
    "end early",
    "garbage",
    "garbage line",
    "no object",
    "fault",
    "status",
    "behind the end",
    "stall",
)


@dataclass
class Front:
    """A server before a llama-server that fails as it is told to."""

    client: httpx.Client
    faults: Faults

    def post(self, dialect: Dialect, fault: str, *, stream: bool) -> httpx.Response:
        """The answer to a request, read to its end."""
        self.faults.names = (fault,)
        body = {**dialect.body, **dialect.more}
        if "options" not in body:
            body["temperature"] = 0
        if stream:
            body["stream"] = True
        return self.client.post(dialect.path, json=body)


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    faults = Faults((), BYTES, Random(1))
    said = hermes_call("ping", '{"to": "you"}')

    def load() -> Any:
        return scripted(said, turn=OPENED)

    with sampled_elsewhere(load, faults=faults, stall_seconds=STALL) as far, running(far) as client:
        yield Front(client, faults)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", DIALECTS)
def test_a_call_is_made(name: str, stream: bool, front: Front) -> None:
    dialect = DIALECTS[name]
    answer = front.post(dialect, "", stream=stream)
    assert answer.status_code == 200, answer.text
    assert dialect.called in answer.text
    if stream:
        assert dialect.end in answer.text.replace(": ", ":")


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("name", DIALECTS)
def test_no_faulty_reply_is_delivered(name: str, fault: str, front: Front) -> None:
    dialect = DIALECTS[name]
    stream = BROKEN.index(fault) % 2 == [*DIALECTS].index(name) % 2  # each fault, each dialect
    answer = front.post(dialect, fault, stream=stream)
    assert "error" in answer.text
    assert "llama-server at http" in answer.text
    if answer.status_code == 200:  # the stream had begun
        assert stream
        assert dialect.end not in answer.text.replace(": ", ":")
    else:
        assert answer.status_code == 502
    assert front.post(dialect, "", stream=stream).status_code == 200


@pytest.mark.parametrize("name", DIALECTS)
def test_a_busy_engine_is_told_of(name: str, front: Front) -> None:
    answer = front.post(DIALECTS[name], "busy", stream=False)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "60"
    assert "later" in answer.text


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dropped_grammar_is_noticed(name: str) -> None:
    faults = Faults(("drop grammar",), BYTES)

    def load() -> Any:
        return scripted(hermes_call("pong"), turn=OPENED)

    with sampled_elsewhere(load, faults=faults) as far, running(far) as client:
        answer = Front(client, faults).post(DIALECTS[name], "drop grammar", stream=False)
    assert answer.status_code == 502
    assert "the grammar does not allow token" in answer.text
