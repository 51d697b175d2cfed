"""Reasoning that nobody bounds leaves half of the tokens to what has to come behind it."""

from typing import Any

import pytest

from constrained.engine.protocol import Sampling
from tests.scripted_model import scripted
from tests.templates import OPEN, PING

GREEDY = Sampling(temperature=0)
ENDLESS = "use " * 2_000
REQUIRED: list[dict[str, Any]] = [
    {"tools": [PING], "tool_choice": "required"},
    {"response_format": {"type": "json_object"}},
]


@pytest.mark.parametrize("options", REQUIRED, ids=["call", "answer"])
@pytest.mark.parametrize("max_tokens", [201, 400])
def test_half_of_the_tokens_are_left(options: dict[str, Any], max_tokens: int) -> None:
    model = scripted(ENDLESS, source=OPEN)
    reply = model.call("Go.", max_tokens=max_tokens, sampling=GREEDY, **options)
    assert reply.usage.reasoning_tokens == max_tokens // 2
    assert reply.calls or reply.content
    more = {**options, "reasoning_budget": 1_000_000}
    free = model.call("Go.", max_tokens=max_tokens, sampling=GREEDY, **more)
    assert free.usage.reasoning_tokens > max_tokens // 2


def test_what_may_come_or_not_leaves_reasoning_free() -> None:
    model = scripted(ENDLESS, source=OPEN)
    reply = model.call("Go.", [PING], max_tokens=100, sampling=GREEDY)
    assert reply.usage.reasoning_tokens > 50
