"""Questions that evaluation asks: of seen families, of unseen ones, and written by hand."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo_model.answers import Call, draw_result
from examples.demo_model.conversations import N_TOOLS, Source, draw_exchange, training_source
from examples.demo_model.families import read_families
from examples.demo_model.wording import draw_request, dress
from examples.demo_model.words import Words

HANDWRITTEN = Path(__file__).with_name("handwritten.jsonl")


@dataclass(frozen=True)
class Question:
    """A request, the tools on offer, and the calls that are right (none: an answer in words).

    Attributes:
        more: messages after the request: a call, and its result.
        says: what the answer has to mention.
    """

    text: str
    tools: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    more: tuple[dict[str, Any], ...] = ()
    says: tuple[str, ...] = ()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, in OpenAI form."""
        return [{"role": "user", "content": self.text}, *self.more]

    @property
    def message(self) -> dict[str, Any]:
        """The right answer, as a message in OpenAI form."""
        return as_message(self.calls)


def as_message(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant's message that makes these calls."""
    shown = [{"type": "function", "function": call} for call in calls]
    return {"role": "assistant", "content": "", "tool_calls": shown}


def draw_questions(group: str, count: int) -> list[Question]:
    """The questions of a group: "seen", "unseen", "handwritten" or "results"; always the same ones.

    "seen" has the families and phrases of training with other names, cities and nouns; "unseen" has
    families and phrases of its own; in "results" a seen tool was called and has answered.
    """
    if group == "handwritten":
        rows = map(json.loads, HANDWRITTEN.read_text(encoding="utf-8").splitlines())
        return [Question(row["request"], row["tools"], row["calls"]) for row in rows][:count]
    if group == "results":
        return [_draw_result(f"{group} {number}") for number in range(count)]
    source = training_source() if group == "seen" else Source(read_families("unseen"), synthetic=0)
    return [_draw(source, f"{group} {number}") for number in range(count)]


def _draw(source: Source, seed: str) -> Question:
    words = Words(random.Random(seed), held_out=True)
    offers = source.draw_offers(words, words.random.choice(N_TOOLS))
    text, calls, _ = draw_exchange(offers, source, words)
    shown = [{"name": call.offer.name, "arguments": call.arguments} for call in calls]
    return Question(text, [offer.definition for offer in offers], shown)


def _draw_result(seed: str) -> Question:
    words = Words(random.Random(seed), held_out=True)
    offers = training_source().draw_offers(words, words.random.choice(N_TOOLS))
    offer = words.random.choice(offers)
    request = dress(draw_request(offer, words), words)
    arguments = request.calls[0][1]
    result, _ = draw_result(Call(offer, arguments), words)
    call = as_message([{"name": offer.name, "arguments": arguments}])
    tools = [offer.definition for offer in offers]
    more = (call, {"role": "tool", "content": result})
    return Question(request.text, tools, [], more, tuple(_list_values(json.loads(result))))


def _list_values(value: Any) -> Iterator[str]:
    """The texts and numbers of a result; that all went well need not be repeated."""
    match value:
        case dict():
            for item in value.values():
                yield from _list_values(item)
        case list():
            for item in value:
                yield from _list_values(item)
        case bool() | "ok":
            pass
        case _:
            yield str(value)
