"""Prompts on real weights: what is not computed again changes nothing of the reply."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from constrained import Model, Sampling, load
from constrained.prompt.job import Job
from tests.real.asks import (
    CONTEXT,
    GREEDY,
    QUESTION,
    TOOLS,
    differs_by_rounding_alone,
    each_sampling,
    get_weather,
    says,
)
from tests.replies import uncounted
from tests.templates import HERMES

pytestmark = pytest.mark.real
Load = Callable[..., Model]
RULES = "You are a guide in Rome. Answer in one short sentence. " * 9
WEATHER: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {"name": "weather", "schema": {"enum": ["sunny", "rainy"]}},
}
TOPICS = ("the Forum", "the Colosseum", "the Tiber")


@pytest.fixture(scope="session")
def open_model(name: str) -> Load:
    return partial(load, name, context_length=CONTEXT, threads=1)


def talk(model: Model, sampling: Sampling, **options: Any) -> list[Any]:
    """A conversation of three turns; its replies."""
    messages = [says(RULES, "system")]
    replies = list[Any]()
    for topic in TOPICS:
        messages.append(says(f"Tell me about {topic}."))
        reply = model.call(messages, max_tokens=12, sampling=sampling, **options)
        replies.append(reply)
        messages.append(reply.message())
    return replies


@each_sampling
def test_what_is_cached_changes_nothing(exact: Model, open_model: Load, sampling: Sampling) -> None:
    warm = talk(exact, sampling)
    again = talk(exact, sampling)
    with open_model(deterministic=True, cache_ram=0) as cold_model:
        cold = talk(cold_model, sampling)
    assert list(map(uncounted, warm)) == list(map(uncounted, again))
    assert list(map(uncounted, warm)) == list(map(uncounted, cold))
    assert cold[0].usage.cached_tokens == 0
    assert all(reply.usage.cached_tokens >= 64 for reply in again)


@pytest.mark.parametrize("deterministic", [False, True])
def test_snapshots_of_another_process(
    open_model: Load, tmp_path: Path, deterministic: bool
) -> None:
    """Its folder is found, and what it has is as good as what is computed."""
    sampled = Sampling(temperature=0.8, seed=7)
    kept = partial(open_model, deterministic=deterministic, cache_dir=tmp_path)
    with kept() as first:
        told = talk(first, GREEDY, logprobs=5)
        drawn = talk(first, sampled)
    with kept() as second:
        found = talk(second, GREEDY, logprobs=5)
        same = talk(second, sampled)
        assert second.metrics().hits >= 1
    assert found[0].usage.cached_tokens >= found[0].usage.prompt_tokens - 64
    if deterministic:
        assert list(map(uncounted, found)) == list(map(uncounted, told))
        assert list(map(uncounted, same)) == list(map(uncounted, drawn))
    else:
        assert differs_by_rounding_alone(found[0], told[0])


def test_a_call_that_comes_back_is_not_computed_again(model: Model, open_model: Load) -> None:
    """The client spells the arguments in its own way; the model sees the tokens that it wrote,
    and goes on as a model does that computes all of them."""
    options: dict[str, Any] = {"tool_choice": "required", "parallel": False, "sampling": GREEDY}
    messages = [says(QUESTION)]
    reply = model.call(messages, TOOLS, max_tokens=100, logprobs=0, **options)
    (call,) = reply.calls
    arguments = ", ".join(f'"{key}" : "{call.arguments[key]}"' for key in ("unit", "city"))
    function = {"name": call.name, "arguments": f"{{{arguments}}}"}
    messages += [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call.id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call.id, "content": str(get_weather(**call.arguments))},
    ]
    turn = model.compile(Job(messages, TOOLS))
    start = reply.usage.prompt_tokens
    written = [token.token for token in reply.logprobs]
    assert list(turn.tokens[start:][: len(written)]) == written
    (warm,) = model.complete([turn], max_tokens=16, sampling=GREEDY, logprobs=5)
    assert warm.usage.cached_tokens > start
    with open_model(cache_ram=0, draft=False) as cold_model:
        (cold,) = cold_model.complete([turn], max_tokens=16, sampling=GREEDY, logprobs=5)
    assert cold.usage.cached_tokens == 0
    assert differs_by_rounding_alone(warm, cold)


@each_sampling
@pytest.mark.parametrize("recall", ["keep", "drop", "auto"])
def test_recall_says_whether_reasoning_is_seen(
    thinker: Model, sampling: Sampling, recall: Any
) -> None:
    options: dict[str, Any] = {"sampling": sampling, "recall": recall, "reasoning_budget": 12}
    options |= {"response_format": WEATHER, "max_tokens": 60}
    messages = [says(QUESTION)]
    reply = thinker.call(messages, think="required", **options)
    assert reply.finish_reason == "stop"
    messages += [reply.message(), says("And in Rome?")]
    turn = thinker.compile(Job(messages, recall=recall))
    prompt = thinker.engine.vocabulary.text(turn.tokens)
    assert reply.content.encode() in prompt
    assert ((reply.reasoning + "\n</think>").encode() in prompt) == (recall == "keep")
    more = thinker.call(messages, **options)
    assert more.parsed in WEATHER["json_schema"]["schema"]["enum"]
    assert more.usage.cached_tokens > 0


@pytest.fixture(scope="session")
def thinker(open_model: Load) -> Iterator[Model]:
    """The weights after a template that writes reasoning, but not that of earlier turns."""
    template = HERMES.replace("if message.reasoning_content", "if message.reasoning_content and no")
    with open_model(chat_template=template) as model:
        yield model
