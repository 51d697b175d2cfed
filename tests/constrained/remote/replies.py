"""Requests to engines, and what is wrong with a reply."""

from typing import Any

from constrained.engine.sampling import Sampling
from constrained.reply import Reply

GREEDY = Sampling(temperature=0)
CITIES = ("Paris", "Zürich", "Oslo", "東京", "São Paulo", "New York")
WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "unit": {"enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "unit"],
    },
}
INVISIBLE = ("change text", "change token")
"""Faults that leave another text of the grammar: nobody could tell that from what was drawn."""


def is_faulty(reply: Reply, honest: Reply, fault: str) -> bool:
    """True if a reply should not have been delivered.

    Args:
        honest: what the engine had really written.
        fault: what was done to the stream.
    """
    if not reply.calls or not all(call.valid for call in reply.calls):
        return True
    return fault not in INVISIBLE and reply.text != honest.text
