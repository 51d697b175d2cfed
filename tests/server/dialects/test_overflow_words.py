"""A prompt that is too long is told in words by which clients know it: they then compact the
conversation, where any other error ends their work."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.errors import make_overflow
from constrained.prompt.template.chat_template import ChatTemplate
from tests.scripted_model import BYTES, scripted
from tests.server.running_server import Json, needs_own_engine, running
from tests.templates import HERMES

LENGTH = 20_000
CLIENTS = {
    # litellm 1.110, litellm_core_utils/exception_mapping_utils.py (aider and others ask it)
    "litellm": r"this model's maximum context length is",
    # crewai 1.15, utilities/exceptions/context_window_exceeding_exception.py
    "crewai": r"maximum context length",
    # @earendil-works/pi-ai 1.6, dist/utils/overflow.js; the list of @kilocode/cli 7.7 has it, too
    "pi": r"maximum context length is \d+ tokens",
    # What vLLM says, for clients that read the numbers
    "vllm": r"is (\d+) tokens\. However, your messages resulted in (\d+) tokens",
}
ANTHROPIC = r"^prompt is too long: \d+ tokens > \d+ maximum"
"""Claude Code, and pi for Messages, know it by these words."""
RATE_LIMITS = r"rate.?limit|too many requests|\b429\b"
"""By these words, clients know errors of another kind, and wait."""


def says(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


def make_bodies(text: str) -> list[tuple[str, Json]]:
    """The same text, as each dialect asks for an answer to it."""
    return [
        ("/v1/chat/completions", {"messages": says(text)}),
        ("/v1/responses", {"input": text}),
        ("/v1/messages", {"messages": says(text), "max_tokens": 9}),
        ("/api/chat", {"model": "demo", "messages": says(text)}),
        ("/api/generate", {"model": "demo", "prompt": text}),
    ]


PATHS = [path for path, _ in make_bodies("")]


def find_message(body: Json) -> str:
    """The message of an error in the form of any dialect."""
    error = body.get("error", body)
    return error if isinstance(error, str) else error["message"]


def check_words(path: str, message: str) -> None:
    for client, words in CLIENTS.items():
        assert re.search(words, message, re.IGNORECASE), (client, message)
    start = ANTHROPIC if path == "/v1/messages" else r"^This model's maximum context length"
    assert re.search(start, message), message
    assert not re.search(RATE_LIMITS, message, re.IGNORECASE), message


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    with running(scripted("Hi.")) as client:
        yield client


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("count", [LENGTH, 200 * LENGTH])  # that is never made tokens of
@pytest.mark.parametrize("path", PATHS)
def test_a_prompt_that_is_too_long(
    plain: httpx.Client, path: str, count: int, is_streamed: bool
) -> None:
    body = dict(make_bodies("x" * count))[path]
    answer = plain.post(path, json={**body, "stream": is_streamed})
    assert answer.status_code == 400
    told = answer.json()
    check_words(path, find_message(told))
    if path.startswith("/api"):
        assert [*told] == ["error"]
        return
    error = told["error"]
    assert error["type"] == "invalid_request_error"
    if path != "/v1/messages":
        assert error["code"] == "context_length_exceeded"
        assert error["n_ctx"] == LENGTH
        assert error["n_prompt_tokens"] >= LENGTH


@needs_own_engine
@pytest.mark.parametrize("path", PATHS)
def test_it_is_found_while_a_stream_runs(path: str) -> None:
    starts: list[int] = []

    def fill(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        starts.append(len(tokens))
        if len(tokens) > starts[0] + 3:
            raise make_overflow(LENGTH, "your messages resulted in 20001 tokens", LENGTH + 1)
        return scripted_logits(BYTES, "Hello.", starts[0])(sequence, tokens)

    engine = ScriptedEngine(BYTES, fill, context_length=LENGTH)
    with running(Model(engine, ChatTemplate(HERMES))) as client:
        body = dict(make_bodies("Hi"))[path]
        answer = client.post(path, json={**body, "stream": True})
    assert answer.status_code == 200
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines()]
    words = "maximum context length is 20000 tokens. However, your messages resulted in 20001"
    assert any(words in line for line in lines), answer.text
    if path == "/v1/messages":
        assert "prompt is too long: 20001 tokens > 20000 maximum" in answer.text
    if path == "/v1/responses":  # Codex reads the code of the last event
        assert '"code":"context_length_exceeded"' in lines[-2].replace('": "', '":"')


def test_the_shortest_reply_counts_too(plain: httpx.Client) -> None:
    long = {"type": "string", "minLength": 500}
    body: Json = {"messages": says("x" * (LENGTH - 300))}
    body["response_format"] = {"type": "json_schema", "json_schema": {"name": "a", "schema": long}}
    error: Any = plain.post("/v1/chat/completions", json=body).json()["error"]
    assert re.match(r"This model's maximum context length is 20000 tokens\. ", error["message"])
    assert "in the shortest turn" in error["message"]
    assert error["code"] == "context_length_exceeded"
