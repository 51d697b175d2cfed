"""What the tests with real weights ask: two ways to draw, two tools, and questions about them."""

from typing import Any, Literal

import pytest

from constrained.engine.protocol import Sampling
from constrained.model.reply import Reply

CONTEXT = 2048  # tokens
GREEDY = Sampling(temperature=0)
SAMPLED = Sampling(temperature=0.8, seed=7)
QUESTION = "What is the weather in Paris?"
ROUNDING = 0.25
"""How much the logarithm of a probability may differ between batches of other sizes: the weights
have 4 bits, and what is between the layers is rounded again in each batch."""

each_sampling = pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> dict[str, Any]:
    """The weather of today."""
    return {"city": city, "temperature": 21, "unit": unit}


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


TOOLS = [get_weather, add]


def says(text: str, role: str = "user") -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": text}


def differs_by_rounding_alone(first: Reply, second: Reply) -> bool:
    """True if two greedy replies with `logprobs` are the same, or part where the two tokens are
    almost equally likely; after that place they may say anything."""
    for one, other in zip(first.logprobs, second.logprobs, strict=False):
        if one.token != other.token:
            likely = dict(one.top)
            return abs(likely.get(other.token, -100) - one.logprob) < ROUNDING
        if abs(one.logprob - other.logprob) > ROUNDING:
            return False
    return len(first.logprobs) == len(second.logprobs)
