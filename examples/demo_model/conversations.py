"""Conversations: tools on offer, requests, calls, results and answers, in OpenAI form."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from examples.demo_model import answers, strings
from examples.demo_model.answers import Call
from examples.demo_model.families import Family, read_families
from examples.demo_model.offers import EXTRAS, STYLES, Offer, make_offer
from examples.demo_model.synthetic import draw_neighbour, draw_recipe, make_family
from examples.demo_model.wording import combine, draw_request, dress, shorten
from examples.demo_model.words import Words

N_TOOLS = (1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 6)
DRILLS = 0.35  # of the conversations: more tools, shorter ones, and more requests
SYSTEMS = (
    "You are a helpful assistant.",
    "You are a helpful assistant. Use the tools when they help.",
    "You call functions.",
    "Be brief.",
    "Today is {day}.",
    "You work for {company}. Be polite.",
    "The user lives in {city}.",
)


@dataclass
class Conversation:
    """Messages in OpenAI form, arguments as objects, and the tools."""

    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]] = field(default_factory=list)
    thinking: bool = False


@dataclass(frozen=True)
class Source:
    """Where families come from.

    Attributes:
        families: hand-written ones.
        synthetic: how often a tool is a synthetic one.
    """

    families: Sequence[Family]
    synthetic: float = 0.4

    def draw_offers(self, words: Words, count: int, *, short: bool = False) -> list[Offer]:
        """So many tools with different names; often some that are easily confused.

        Args:
            short: with nothing but what they require.
        """
        style, recipe, offers = words.random.choice(STYLES), None, dict[str, Offer]()
        home = words.random.choice(self.families)
        for _ in range(20 * count):
            if words.random.random() < self.synthetic:
                near = recipe is not None and words.random.random() < 0.5
                recipe = draw_neighbour(recipe, words) if near and recipe else draw_recipe(words)
                family = make_family(recipe, words)
            else:
                family = self._near(home, words)
            family, extras = (shorten(family), 0.0) if short else (family, EXTRAS)
            offer = make_offer(family, words, style, extras)
            if offer.family not in [other.family for other in offers.values()]:
                offers.setdefault(offer.name, offer)
            if len(offers) == count:
                break
        drawn = list(offers.values())
        words.random.shuffle(drawn)
        return drawn

    def _near(self, home: Family, words: Words) -> Family:
        """Half of the time a family of the same domain."""
        if words.random.random() < 0.5:
            return words.random.choice([f for f in self.families if f.domain == home.domain])
        return words.random.choice(self.families)


def training_source() -> Source:
    """What is trained on."""
    return Source(read_families("seen"))


def draw_conversation(
    source: Source, seed: int | str, pieces: Sequence[str] | None = None
) -> Conversation:
    """A conversation for training; the same seed gives the same one.

    Args:
        pieces: letter tokens of the vocabulary, see `Words`.
    """
    words = Words(random.Random(seed), pieces=pieces) if pieces else Words(random.Random(seed))
    if words.random.random() < 0.03:
        return _draw_idle(words)
    if words.random.random() < DRILLS:
        return _draw_drill(source, words)
    count = words.random.choice(N_TOOLS)
    offers = source.draw_offers(words, count)
    conversation = Conversation([offer.definition for offer in offers])
    conversation.thinking = words.random.random() < 0.2
    if words.random.random() < 0.2:
        conversation.messages.append({"role": "system", "content": _draw_system(words)})
    long = words.random.random() < 0.015
    for _ in range(words.random.randint(12, 24) if long else words.random.choice((2, 3, 4, 5))):
        _add_exchange(conversation, offers, source, words)
    return conversation


def _draw_idle(words: Words) -> Conversation:
    """A chat without any tool."""
    conversation = Conversation([])
    for _ in range(words.random.randint(1, 3)):
        said, answer = answers.draw_chat(words)
        conversation.messages += [
            {"role": "user", "content": said},
            {"role": "assistant", "content": answer},
        ]
    return conversation


def _draw_drill(source: Source, words: Words) -> Conversation:
    """Many short requests for many short tools: which of them is meant is the hardest thing to
    learn, and here it is asked twice as often for the same number of tokens."""
    offers = source.draw_offers(words, words.random.randint(2, 7), short=True)
    conversation = Conversation([offer.definition for offer in offers])
    for _ in range(words.random.randint(6, 9)):
        text, calls, answer = draw_exchange(offers, source, words)
        _add_turn(conversation, text, calls, answer)
    return conversation


def _draw_system(words: Words) -> str:
    pattern = words.random.choice(SYSTEMS)
    return pattern.format(
        day=strings.day(words), company=strings.company(words), city=words.pick("city")
    )


def _add_exchange(
    conversation: Conversation, offers: list[Offer], source: Source, words: Words
) -> None:
    """A request and what the assistant makes of it; perhaps results and an answer."""
    text, calls, answer = draw_exchange(offers, source, words)
    reasoning = answers.think(calls, words) if conversation.thinking else ""
    _add_turn(conversation, text, calls, answer, reasoning)
    if calls and words.random.random() < 0.3:
        _add_results(conversation, calls, words)


def _add_turn(
    conversation: Conversation, text: str, calls: list[Call], answer: str, reasoning: str = ""
) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": answer}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [_show(call) for call in calls]
    conversation.messages += [{"role": "user", "content": text}, message]


def _show(call: Call) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": call.offer.name, "arguments": call.arguments},
    }


def _add_results(conversation: Conversation, calls: list[Call], words: Words) -> None:
    sentences = list[str]()
    for call in calls:
        result, sentence = answers.draw_result(call, words)
        conversation.messages.append({"role": "tool", "content": result})
        sentences.append(sentence)
    answer = {"role": "assistant", "content": " ".join(dict.fromkeys(sentences))}
    if conversation.thinking:
        answer["reasoning_content"] = "I have the result."
    conversation.messages.append(answer)


def draw_exchange(offers: list[Offer], source: Source, words: Words) -> tuple[str, list[Call], str]:
    """A request in a sentence, the calls that it asks for, and the answer where there is none."""
    roll = words.random.random()
    if roll < 0.04:
        said, answer = answers.draw_chat(words)
        return said, [], answer
    if roll < 0.09:
        return _draw_unserved(offers, source, words)
    request = draw_request(words.random.choice(offers), words, several=roll > 0.9)
    if roll < 0.18:
        request = combine(request, draw_request(words.random.choice(offers), words), words)
    request = dress(request, words)
    return request.text, [Call(offer, arguments) for offer, arguments in request.calls], ""


def _draw_unserved(
    offers: list[Offer], source: Source, words: Words
) -> tuple[str, list[Call], str]:
    """A request for a tool that is not there."""
    domains = {offer.family.domain for offer in offers}
    others = [family for family in source.families if family.domain not in domains]
    request = draw_request(make_offer(words.random.choice(others), words, "snake", 0), words)
    return dress(request, words).text, [], words.random.choice(answers.NO_TOOL)
