"""Requests: the patterns of families with values put in, and the arguments they ask for.

In a pattern `{key}` is a value, `{key?text}` a value or the text in its place, `{key:yes/no}` the
words for true or false, `{key!text}` the words for true; a part in [brackets] may be left out.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any

from examples.demo_model.families import Family
from examples.demo_model.kinds import join
from examples.demo_model.offers import Offer, Slot
from examples.demo_model.words import Words

OPTIONAL = re.compile(r"\[([^\]]*)\]")
HOLE = re.compile(r"\{(\w+)(?:\?([^}]*)|!([^}]*)|:([^}/]*)/([^}]*))?\}")
ORDERS = (
    "{}", "{}", "{}", "{}", "{}", "please {}", "{} please", "could you {}?", "can you {}?",
    "pls {}", "I need you to {}", "I want you to {}", "hey, {}", "{}, thanks", "hi! {}",
    "would you {}?", "I'd like you to {}", "{} for me", "go ahead and {}", "can you please {}",
    "now {}", "let's {}", "okay, {}", "{}!", "{}.", "I have to {}", "help me {}",
)  # fmt: skip
OTHERS = (
    "{}", "{}", "{}", "{}", "{}", "{}", "hey, {}", "hi, {}", "quick question: {}", "so, {}",
    "tell me, {}", "one more thing: {}", "ok, {}", "um, {}", "hello! {}", "excuse me, {}",
)  # fmt: skip
MORE = "<more>"  # where parameters are mentioned that the pattern does not know; else at the end
SURE = 0.55  # how likely an optional part is said


@dataclass
class Request:
    """A request for one call or several.

    Attributes:
        form: ">" for an order, "?" for another form.
        calls: names and arguments, in the order of the request.
    """

    form: str
    text: str
    calls: list[tuple[Offer, dict[str, Any]]] = field(default_factory=list)


@dataclass
class _Filling:
    """Values put into one pattern; `plain` is whether no string was changed."""

    offer: Offer
    words: Words
    several: str | None = None
    lower: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    spread: list[Any] = field(default_factory=list)

    def fill(self, match: re.Match[str]) -> str:
        key, text, always, yes, no = match.groups()
        slot, random = self.offer.slot(key), self.words.random
        if text is not None and not slot.parameter.required and random.random() > SURE:
            return text
        if always is not None:
            self.values[key] = True
            return always
        if yes is not None:
            self.values[key] = random.random() < 0.6
            return yes if self.values[key] else no
        if key == self.several:
            return self._fill_several(slot)
        self.values[key], said = self._draw(slot)
        return said

    def _draw(self, slot: Slot) -> tuple[Any, str]:
        value, said = slot.kind.draw(self.words)
        if self.lower and value == said and "enum" not in slot.kind.schema:
            value = said = said.lower()
        if value == said and " " in said and self.words.random.random() < 0.12:
            said = self.words.random.choice(('"{}"', '"{}"', "'{}'", "“{}”")).format(said)
        return value, said

    def _fill_several(self, slot: Slot) -> str:
        count = self.words.random.choice((2, 2, 3))
        drawn = dict(self._draw(slot) for _ in range(count))
        self.spread = list(drawn)
        return join(list(drawn.values()), self.words)


def draw_request(offer: Offer, words: Words, *, several: bool = False) -> Request:
    """A request for a tool.

    Args:
        several: ask for a call with each of several values, if the tool takes a text that allows
            it.
    """
    form, pattern = words.random.choice(offer.family.requests)
    lower = words.random.random() < 0.12
    filling = _Filling(offer, words, _spread_key(offer, words) if several else None, lower)
    pattern = OPTIONAL.sub(lambda m: m[1] if words.random.random() < SURE else "", pattern)
    start = pattern[:1]
    text = HOLE.sub(filling.fill, pattern)
    text = _add_extras(text, filling)
    if start.isalpha() and words.random.random() < 0.4:
        text = text[0].upper() + text[1:]
    return Request(form, text, _read_calls(filling))


def _spread_key(offer: Offer, words: Words) -> str | None:
    keys = [
        slot.parameter.key
        for slot in offer.slots
        if slot.parameter.required
        and slot.kind.schema.get("type") == "string"
        and slot.parameter.spec not in ("sentence", "currency", "sql", "task", "formula")
    ]
    return words.random.choice(keys) if keys else None


def _add_extras(text: str, filling: _Filling) -> str:
    """Mentions some of the parameters that the pattern does not know."""
    end = text[-1] if text[-1:] in "?!." else ""
    added = ""
    slots = list(filling.offer.slots)
    if filling.words.random.random() < 0.3:
        filling.words.random.shuffle(slots)
    for slot in slots:
        says = slot.parameter.says
        if not says or slot.parameter.key in filling.values:
            continue
        if not slot.parameter.required and filling.words.random.random() > 0.45:
            continue
        added += _say(slot, filling)
    return text.replace(MORE, added) if MORE in text else text.removesuffix(end) + added + end


def _say(slot: Slot, filling: _Filling) -> str:
    pattern = filling.words.random.choice(slot.parameter.says)
    value, said = filling._draw(slot)
    if "//" in pattern:
        yes, _, no = pattern.partition("//")
        pattern = yes if value else no
    filling.values[slot.parameter.key] = value
    said = pattern.replace("{name}", slot.name.replace("_", " ")).replace("{x}", said)
    return said if said[:1] in ",:" else " " + said


def _read_calls(filling: _Filling) -> list[tuple[Offer, dict[str, Any]]]:
    """The calls, with arguments in the order of the schema."""
    rows = [filling.values]
    if filling.spread and filling.several:
        rows = [{**filling.values, filling.several: value} for value in filling.spread]
    return [
        (
            filling.offer,
            {s.name: row[s.parameter.key] for s in filling.offer.slots if s.parameter.key in row},
        )
        for row in rows
    ]


def shorten(family: Family) -> Family:
    """The family without optional parameters, and without what requests say for them."""
    parameters = tuple(p for p in family.parameters if p.required)
    keys = {p.key for p in parameters}
    short = [(form, OPTIONAL.sub("", pattern)) for form, pattern in family.requests]
    requests = [
        (form, pattern)
        for form, pattern in short
        if all(match[1] in keys for match in HOLE.finditer(pattern))
    ]
    if not requests:
        return family
    return replace(family, parameters=parameters, requests=tuple(requests))


def dress(request: Request, words: Words) -> Request:
    """Puts the request into a sentence as people say it."""
    frame = words.random.choice(ORDERS if request.form == ">" else OTHERS)
    text = request.text
    if request.form == ">" and not frame.startswith("{}") and text[1:2].islower():
        text = text[0].lower() + text[1:]
    if "?" in frame or "!" in frame[-1:]:
        text = text.rstrip("?.!")
    text = frame.format(text)
    if frame[0] != "{" and words.random.random() < 0.4:
        text = text[0].upper() + text[1:]
    if text[-1:] in "?." and words.random.random() < 0.15:
        text = text[:-1]
    return Request(request.form, text, request.calls)


def combine(first: Request, second: Request, words: Words) -> Request:
    """Two requests in one."""
    joints = ["{}. {}", "{}. Also, {}", "{}. Then {}", "{}. And {}", "{}; {}", "{}. After that, {}"]
    if first.form == second.form == ">":
        joints += ["{} and {}", "{} and {}", "{}, and {}", "{} and then {}", "{}, then {}"] * 2
    elif not first.text.endswith("?"):
        joints += ["{} and {}", "{}, and also {}"]
    body, end = first.text.rstrip("?!."), "?" if first.text.endswith("?") else "."
    joint = words.random.choice(joints).replace("{}.", "{}" + end)
    return Request(first.form, joint.format(body, second.text), first.calls + second.calls)
