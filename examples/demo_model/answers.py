"""What the assistant says: in place of a call, before it, and about the result of a tool."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from examples.demo_model import strings
from examples.demo_model.families import FOLDER
from examples.demo_model.offers import Offer
from examples.demo_model.words import Words

NO_TOOL = (
    "I have no tool for that.",
    "Sorry, none of my tools can do that.",
    "I can't do that with the tools I have.",
    "There is no tool for that.",
)
DONE = ("Done.", "That's done.", "All done.", "Okay, done.")
FAILURES = "not found,access denied,timeout,invalid request,no such entry,service unavailable,full"


@dataclass(frozen=True)
class Call:
    """A tool that is called, and the arguments."""

    offer: Offer
    arguments: dict[str, Any]


@lru_cache(maxsize=1)
def _chat() -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    lines = (FOLDER / "chat.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" => ") for line in lines]
    return tuple((tuple(said.split("|")), tuple(answer.split("|"))) for said, answer in pairs)


def draw_chat(words: Words) -> tuple[str, str]:
    """Something that needs no tool, and the answer."""
    said, answers = words.random.choice(_chat())
    text = words.random.choice(said)
    return (text.capitalize() if words.random.random() < 0.3 else text), words.random.choice(
        answers
    )


def think(calls: list[Call], words: Words) -> str:
    """A short reasoning: which tool, and where its arguments come from."""
    if not calls:
        return words.random.choice(("No tool fits this.", "This needs no tool."))
    return " ".join(_plan(call) for call in calls)


def _plan(call: Call) -> str:
    parts = [f"{name} is {_say(value)}" for name, value in call.arguments.items()]
    return f"I call {call.offer.name}" + (f": {', '.join(parts)}." if parts else ".")


def _say(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def draw_result(call: Call, words: Words) -> tuple[str, str]:
    """What the tool returns, and the sentence that tells the user."""
    roll = words.random.random()
    if roll < 0.12:
        error = words.random.choice(FAILURES.split(","))
        text = words.random.choice(("That failed: {}.", "Sorry, that did not work: {}."))
        return _dump({"error": error}), text.format(error)
    if roll < 0.3:
        key, value = words.random.choice((("ok", True), ("status", "ok"), ("success", True)))
        return _dump({key: value}), words.random.choice(DONE)
    if roll < 0.45:
        return _draw_list(words)
    return _draw_facts(call, words)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _draw_list(words: Words) -> tuple[str, str]:
    draw = words.random.choice((strings.title, strings.product, strings.person, strings.word))
    found = list(dict.fromkeys(draw(words) for _ in range(words.random.randint(0, 4))))
    shown = found if words.random.random() < 0.5 else {"results": found}
    if not found:
        return _dump(shown), words.random.choice(("I found nothing.", "There is nothing."))
    return _dump(shown), f"I found {_join(found)}."


def _join(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _draw_facts(call: Call, words: Words) -> tuple[str, str]:
    """One to three facts, said as "The price is 12"; some repeat an argument."""
    facts = dict(_draw_fact(words) for _ in range(words.random.choice((1, 1, 2, 2, 3))))
    texts = {k: v for k, v in call.arguments.items() if isinstance(v, str) and len(v) < 30}
    repeated = dict([words.random.choice(list(texts.items()))]) if texts else {}
    said = [f"the {key.replace('_', ' ')} is {_say(value)}" for key, value in facts.items()]
    start = ""
    if repeated and words.random.random() < 0.6:
        facts = repeated | facts
        start = f"{next(iter(repeated.values()))}: "
    text = start + _join(said)
    return _dump(facts), (text if start else text[0].upper() + text[1:]) + "."


def _draw_fact(words: Words) -> tuple[str, Any]:
    random = words.random
    number, word = random.randint(0, 999), words.pick("adjective")
    common = (
        ("temperature", random.randint(-15, 38)),
        ("price", number),
        ("status", word),
        ("time", strings.clock(words)),
        ("weather", random.choice(("sunny", "rainy", "cloudy", "windy", "snowy", "foggy"))),
        ("result", random.choice((number, number / 10, words.pick("noun")))),
        ("id", number),
        ("total", number / 10),
        ("date", strings.day(words)),
    )
    other = (words.pick("noun"), random.choice((number, word, words.pick("noun"))))
    return random.choice(common) if random.random() < 0.6 else other
