"""Requests to engines, and what is wrong with a reply."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from constrained.agent.model import Model
from constrained.engine.sampling import Sampling
from constrained.errors import RemoteError
from constrained.model.reply import Reply
from constrained.remote.address import EngineKind
from tests.constrained.remote.faulty_proxy import Faults

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
"""Faults that leave another text of the grammar: nobody could tell that from what was sampled."""
ALL = ("drop grammar", "cut", "break off", "lose", "end early", "garbage", "no object", "fault")
ALL += ("status", "shorten prompt", "repeat", "change token", "behind the end", "garbage line", "")
FAULTS = {
    EngineKind.LLAMA_SERVER: (*ALL, "swap", "change text"),
    EngineKind.VLLM: ALL,
    EngineKind.SGLANG: ALL,
}


def ask(model: Model, city: str, **options: Any) -> Reply:
    """A call that has to be."""
    question = f"What's the weather in {city}?"
    given: Any = {"sampling": GREEDY, "tool_choice": "required", **options}
    return model.call(question, [WEATHER], **given)


def write_string(model: Model, marker: str) -> Reply:
    """An object with a string, of a model that would like to write nothing but a marker."""
    token = model.engine.vocabulary.marker(marker)
    assert token is not None
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    sampling = Sampling(temperature=0, logit_bias={token: 50})
    return model.call("Hi", response_format=form, sampling=sampling, max_tokens=60)


@dataclass
class Delivered:
    """What came of requests through a faulty proxy.

    Attributes:
        count: of replies that were delivered.
        refused: how many were errors.
        faulty: of each reply that should not have been delivered, the fault and the text.
    """

    count: int = 0
    refused: int = 0
    faulty: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def ask_through(model: Model, faults: Faults, names: Sequence[str], *, requests: int) -> Delivered:
    """Asks a model behind a faulty proxy, without faults first, to know the honest replies."""
    honest = {city: ask(model, city) for city in CITIES}
    faults.names = tuple(names)
    delivered = Delivered()
    for number in range(requests):
        city = CITIES[number % len(CITIES)]
        try:
            reply = ask(model, city)
        except RemoteError:
            delivered.refused += 1
            model._runner._breaker.note_success()  # outages are what is tried here
            continue
        delivered.count += 1
        if is_faulty(reply, honest[city], faults.last):
            delivered.faulty.append((faults.last, reply.text))
    return delivered


def is_faulty(reply: Reply, honest: Reply, fault: str) -> bool:
    """True if a reply should not have been delivered.

    Args:
        honest: what the engine had really written.
        fault: what was done to the stream.
    """
    if not reply.calls or not all(call.valid for call in reply.calls):
        return True
    return fault not in INVISIBLE and reply.text != honest.text
