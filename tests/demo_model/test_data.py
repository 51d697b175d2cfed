"""The data of the demo model: what requests ask for is what calls say."""

import json
import random
from collections import Counter
from typing import Any

import jsonschema_rs
import pytest

pytest.importorskip("faker", reason="extra train")
pytest.importorskip("wonderwords", reason="extra train")
pytest.importorskip("pycountry", reason="extra train")

from examples.demo_model.conversations import (
    Conversation,
    draw_conversation,
    draw_exchange,
    training_source,
)
from examples.demo_model.exam import draw_questions
from examples.demo_model.families import Family, read_families
from examples.demo_model.synthetic import draw_recipe, reserved_words
from examples.demo_model.wording import HOLE, OPTIONAL, shorten
from examples.demo_model.words import Words, is_held_out

FAMILIES = [*read_families("seen"), *read_families("unseen")]
GROUPS = ("seen", "unseen", "handwritten", "results")


def calls_of(conversation: Conversation) -> list[tuple[str, dict[str, Any]]]:
    """Requests, and the calls that follow them."""
    rows, asked = [], ""
    for message in conversation.messages:
        if message["role"] == "user":
            asked = message["content"]
        rows += [(asked, call["function"]) for call in message.get("tool_calls", ())]
    return rows


def check_schema(call: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    """The tool is on offer, the arguments fit, and stand in the order of the schema."""
    tool = next(t["function"] for t in tools if t["function"]["name"] == call["name"])
    schema = tool["parameters"] | {"additionalProperties": False}
    jsonschema_rs.validator_for(schema).validate(call["arguments"])
    order = [name for name in schema["properties"] if name in call["arguments"]]
    assert list(call["arguments"]) == order


def texts(value: Any) -> list[str]:
    """All texts in a value."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def test_the_same_seed_draws_the_same():
    source = training_source()
    assert draw_conversation(source, 7) == draw_conversation(source, 7)
    assert draw_conversation(source, 7) != draw_conversation(source, 8)


def test_calls_fit():
    source = training_source()
    for seed in range(400):
        conversation = draw_conversation(source, seed)
        for _, call in calls_of(conversation):
            check_schema(call, conversation.tools)


def test_texts_are_said():
    """Text in arguments is copied from the request; but enums and codes may be said otherwise."""
    source = training_source()
    said = 0
    unsaid = list[str]()
    for seed in range(400):
        conversation = draw_conversation(source, seed)
        for request, call in calls_of(conversation):
            for text in texts(call["arguments"]):
                said += text in request
                unsaid += [text] if text not in request else []
    shown = json.dumps(
        [t["function"] for s in range(400) for t in draw_conversation(source, s).tools]
    )
    codes = [t for t in unsaid if json.dumps(t) not in shown and not (len(t) <= 3 and t.isalpha())]
    assert not codes
    assert said > 6 * len(unsaid)


@pytest.mark.parametrize("group", GROUPS)
def test_questions_fit(group: str):
    questions = draw_questions(group, 200)
    assert questions == draw_questions(group, 200)
    assert len(questions) == (100 if group == "handwritten" else 200)
    for question in questions:
        for call in question.calls:
            check_schema(call, question.tools)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.names[0])
def test_families(family: Family):
    assert len(family.requests) >= 5
    assert len(family.names) >= 3
    keys = {p.key for p in family.parameters}
    required = {p.key for p in family.parameters if p.required}
    for _, pattern in family.requests:
        assert {match[1] for match in HOLE.finditer(pattern)} <= keys, pattern
        certain = {match[1] for match in HOLE.finditer(OPTIONAL.sub("", pattern))}
        assert required <= certain, pattern


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.names[0])
def test_short_families(family: Family):
    short = shorten(family)
    keys = {p.key for p in short.parameters}
    assert keys == {p.key for p in family.parameters if p.required}
    assert short.requests
    for _, pattern in short.requests:
        assert {match[1] for match in HOLE.finditer(pattern)} == keys, pattern
        assert not OPTIONAL.search(pattern)


def test_a_third_of_the_conversations_ask_often():
    source = training_source()
    drawn = [draw_conversation(source, seed) for seed in range(300)]
    often = [c for c in drawn if sum(m["role"] == "user" for m in c.messages) in range(6, 10)]
    assert 70 < len(often) < 140
    assert not any(c.thinking for c in often)


def test_there_are_many_families():
    assert len(read_families("seen")) >= 80
    assert len(read_families("unseen")) >= 20
    names = Counter(name for family in FAMILIES for name in family.names)
    seen = {name for family in read_families("seen") for name in family.names}
    unseen = {name for family in read_families("unseen") for name in family.names}
    assert not seen & unseen
    assert names.most_common(1)[0][1] <= 2


def test_unseen_tools_have_no_synthetic_namesake():
    words = Words(random.Random(2))
    assert {"taxi", "thermostat", "podcast", "invoice"} <= reserved_words()
    for _ in range(2000):
        assert reserved_words().isdisjoint(draw_recipe(words).noun.split())


def test_words_of_evaluation_are_not_trained():
    for kind in ("noun", "first", "city"):
        trained = Words(random.Random(1))
        asked = Words(random.Random(1), held_out=True)
        assert not any(is_held_out(trained.pick(kind)) for _ in range(300))
        assert all(is_held_out(asked.pick(kind)) for _ in range(300))


def test_kinds_of_turns():
    source = training_source()
    words = Words(random.Random(5))
    counts = Counter[int]()
    for _ in range(1500):
        offers = source.draw_offers(words, 3)
        _, calls, answer = draw_exchange(offers, source, words)
        counts[min(len(calls), 3)] += 1
        assert bool(calls) != bool(answer)
    assert counts[0] > 80
    assert counts[1] > 1000
    assert counts[2] > 80
    assert counts[3] > 10
