"""Conversations that fill the context of 2,048 tokens, and those of one token more."""

from typing import Any

import httpx
import pytest

from constrained import Model, Sampling
from constrained.errors import ContextError
from constrained.prompt.job import Job
from grammars.turn import ContentDelta
from tests.real.asks import CONTEXT, GREEDY, SAMPLED, TOOLS, each_sampling, says
from tests.server.running_server import stream

pytestmark = pytest.mark.real
STORY = "Once there was a king who had a horse and a dog. "


def measure(model: Model, messages: list[Any], tools: Any = ()) -> int:
    """The tokens of a prompt."""
    return len(model.compile(Job(messages, tools)).tokens)


def fill(model: Model, size: int, tools: Any = ()) -> list[dict[str, Any]]:
    """A message whose prompt has exactly so many tokens; all sizes begin alike."""
    unit = measure(model, [says(STORY * 2)]) - measure(model, [says(STORY)])
    rest = size - measure(model, [says("")], tools)
    text = STORY * (rest // unit - 1)
    while measure(model, [says(text)], tools) < size:
        text += " horse"
    assert measure(model, [says(text)], tools) == size
    return [says(text)]


@pytest.fixture(scope="session")
def largest(model: Model) -> list[dict[str, Any]]:
    """It leaves room for a single token."""
    return fill(model, CONTEXT - 1)


@each_sampling
def test_the_last_token_of_the_context_is_used(
    model: Model, largest: list[Any], sampling: Sampling
) -> None:
    reply = model.call(largest, sampling=sampling)
    assert reply.usage.prompt_tokens == CONTEXT - 1
    assert reply.usage.completion_tokens == 1
    assert reply.finish_reason in ("length", "stop")
    told = model.stream(largest, sampling=sampling)
    assert "".join(e.text for e in told if isinstance(e, ContentDelta)) == told.result.content
    assert told.result.usage.completion_tokens == 1


@each_sampling
def test_one_token_more_is_refused(model: Model, largest: list[Any], sampling: Sampling) -> None:
    (message,) = largest
    longer = [says(message["content"] + " horse")]
    assert measure(model, longer) == CONTEXT
    refused = pytest.raises(ContextError, match=r"is 2048 tokens.* in 2048 tokens")
    with refused as failure:
        model.call(longer, sampling=sampling)
    assert "-c" in str(failure.value)
    with refused:
        list(model.stream(longer, sampling=sampling))
    assert model.call("Hello", max_tokens=2, sampling=sampling).usage.completion_tokens <= 2


@each_sampling
def test_a_turn_ends_where_the_context_does(model: Model, sampling: Sampling) -> None:
    """The model has room for 40 tokens, and is asked for more than it has room for."""
    messages = fill(model, CONTEXT - 40)
    long = {"type": "json_schema", "schema": {"type": "string", "minLength": 300}}
    free = model.call(messages, sampling=sampling)
    assert free.usage.completion_tokens <= 40
    if free.finish_reason == "length":
        assert free.usage.completion_tokens == 40
    with pytest.raises(ContextError, match="context"):
        model.call(messages, sampling=sampling, response_format=long)


@each_sampling
def test_a_call_is_whole_where_the_context_ends(model: Model, sampling: Sampling) -> None:
    messages = fill(model, CONTEXT - 60, TOOLS)
    reply = model.call(messages, TOOLS, tool_choice="required", sampling=sampling)
    assert reply.calls
    assert all(call.valid for call in reply.calls)
    assert reply.usage.prompt_tokens + reply.usage.completion_tokens <= CONTEXT
    messages = fill(model, CONTEXT - 10, TOOLS)
    with pytest.raises(ContextError, match="the shortest turn"):
        model.call(messages, TOOLS, tool_choice="required", sampling=sampling)


def test_a_conversation_grows_until_the_context_is_full(model: Model) -> None:
    """Each turn reads what is new, until there is no room: then an error says so, and the turns
    before it can still be gone on with."""
    messages = list[dict[str, Any]]()
    size = 0
    for number in range(100):
        messages.append(says(f"{number}. {STORY * 16} What is its name?"))
        if measure(model, messages) >= CONTEXT:
            break
        sampling = SAMPLED if number % 2 else GREEDY
        reply = model.call(messages, max_tokens=12, sampling=sampling)
        assert reply.usage.cached_tokens >= size
        size = reply.usage.prompt_tokens
        messages.append(reply.message())
    assert size > CONTEXT - 300
    with pytest.raises(ContextError, match=f"context length is {CONTEXT}"):
        model.call(messages, max_tokens=12)
    again = model.call([*messages[:-1], says("Bye.")], max_tokens=4, sampling=GREEDY)
    assert again.usage.cached_tokens >= size


@pytest.mark.parametrize("streamed", [False, True])
def test_servers_refuse_one_token_too_many(
    server: httpx.Client, model: Model, largest: list[Any], streamed: bool
) -> None:
    (message,) = largest
    body = {"model": "smollm2", "messages": [says(message["content"] + " horse")]}
    body |= {"stream": streamed, "max_tokens": 8}
    for path, kind in (("/v1/chat/completions", "code"), ("/v1/messages", "type")):
        answer = server.post(path, json=body)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error[kind] in ("context_length_exceeded", "invalid_request_error")
        assert "However, your messages resulted in 2048 tokens" in error["message"]
    assert stream(server, "/v1/chat/completions", {"messages": [says("Hello")], "max_tokens": 2})
