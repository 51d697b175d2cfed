"""Families made of words: a verb, a noun and drawn parameters, in as many ways as there are words.

The request need not say the tool's own verb: `remove_ticket` answers "get rid of the ticket".
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from examples.demo_model.families import FOLDER, Family, Parameter, read_families
from examples.demo_model.meanings import OTHERS, draw_meaning
from examples.demo_model.parts import draw_parts
from examples.demo_model.wording import MORE
from examples.demo_model.words import Words

NAMES = {"title", "product", "word", "person", "topic", "code", "id", "food", "company", "path"} | {
    "project", "invented", "random", "slug", "city", "sentence", "url", "venue", "list product",
}  # fmt: skip

SWITCHES = (
    ("turn on", "turn off", "on", "off"),
    ("switch on", "switch off", "on", "off"),
    ("enable", "disable", "enabled", "disabled"),
    ("activate", "deactivate", "active", "inactive"),
    ("open", "close", "open", "closed"),
    ("lock", "unlock", "locked", "unlocked"),
    ("start", "stop", "running", "stopped"),
    ("show", "hide", "visible", "hidden"),
    ("mute", "unmute", "muted", "unmuted"),
)


@dataclass(frozen=True)
class VerbGroup:
    """Verbs of tools that mean much the same, and what people say for them.

    Attributes:
        gloss: what they mean; empty where nobody has said it.
    """

    tools: tuple[str, ...]
    orders: tuple[str, ...]
    others: tuple[str, ...]
    gloss: str = ""


@lru_cache(maxsize=1)
def read_verbs() -> tuple[VerbGroup, ...]:
    """The groups of verbs.txt: `verbs of tools : > orders, ...; ? patterns, ...`."""
    groups = list[VerbGroup]()
    for line in (FOLDER / "verbs.txt").read_text(encoding="utf-8").splitlines():
        tools, said = line.split(" : ")
        orders, others = said.removeprefix("> ").split("; ? ")
        groups.append(VerbGroup(tuple(tools.split()), _items(orders), _items(others)))
    return tuple(groups)


def _items(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(", ") if part.strip())


@dataclass(frozen=True)
class Recipe:
    """What a family is made of; one part changed gives a tool that is easily confused with it.

    Attributes:
        noun: of the tool.
        said: what people say for it, where that may be another word.
    """

    verb: VerbGroup
    noun: str
    said: tuple[str, ...] = ()


def draw_recipe(words: Words, meant: float = 0.0) -> Recipe:
    """A verb and a noun; the noun may be two words, or invented.

    Args:
        meant: how likely each is one of `meanings`, so that a request may say another word.
    """
    verb = _draw_meant_verb(words) if meant and words.random.random() < meant else None
    if meant and words.random.random() < meant:
        noun, said = _draw_meant_noun(words)
    else:
        noun, said = _draw_noun(words), ()
    while not reserved_words().isdisjoint(noun.split()):
        noun, said = _draw_noun(words), ()
    return Recipe(verb or words.random.choice(read_verbs()), noun, said)


def _draw_meant_verb(words: Words) -> VerbGroup:
    meaning = draw_meaning("verb", words)
    tools = tuple(w for w in meaning.words if reserved_words().isdisjoint(w.split()))
    if not tools:
        return _draw_meant_verb(words)
    patterns = (words.random.choice(OTHERS).format(word) for word in meaning.words)
    return VerbGroup(tools, meaning.words, tuple(patterns), meaning.gloss)


def _draw_meant_noun(words: Words) -> tuple[str, tuple[str, ...]]:
    """The noun of a tool, and what a request may say: as often something narrower."""
    meaning = draw_meaning("noun", words)
    return words.random.choice(meaning.words), meaning.words + meaning.kinds


def _draw_noun(words: Words) -> str:
    roll = words.random.random()
    if roll < 0.12:
        return words.invent()
    if roll < 0.17:
        return words.scramble().lower()
    if roll < 0.45:
        first = words.pick(words.random.choice(("noun", "adjective")))
        return f"{first} {words.pick('noun')}"
    return words.pick("noun")


@lru_cache(maxsize=1)
def reserved_words() -> frozenset[str]:
    """Words of tools that are never trained on; no synthetic tool is called by them."""
    common = {tool for group in read_verbs() for tool in group.tools}
    seen = {word for family in read_families("seen") for word in _words_of(family)}
    unseen = {word for family in read_families("unseen") for word in _words_of(family)}
    return frozenset(unseen - seen - common)


def _words_of(family: Family) -> set[str]:
    return {word for name in family.names for word in re.split(r"[ ._]", name)}


def draw_neighbour(recipe: Recipe, words: Words, meant: float = 0.0) -> Recipe:
    """The same verb with another noun, or the same noun with another verb."""
    other = draw_recipe(words, meant)
    while meant and not set(other.verb.orders).isdisjoint(recipe.verb.orders):
        other = draw_recipe(words, meant)
    if words.random.random() < 0.5:
        return replace(other, verb=recipe.verb)
    return replace(recipe, verb=other.verb)


def make_family(recipe: Recipe, words: Words) -> Family:
    """Draws a family for a verb and a noun."""
    if words.random.random() < 0.07:
        return make_switch(recipe.noun, words)
    verb = words.random.choice(recipe.verb.tools)
    parameters = draw_parts(words)
    order = f"{verb} {recipe.noun}"
    names = (order, order, order, f"{recipe.noun} {verb}") if _is_plain(recipe.noun) else (order,)
    article = words.random.choice(("a", "the", "one"))
    described = words.random.choice(recipe.verb.tools)
    descriptions = (
        f"{_inflect(described).capitalize()} {article} {recipe.noun}",
        f"{described.capitalize()} {recipe.noun}",
        f"Use it to {described} {article} {recipe.noun}", f"{recipe.noun} {described}",
    )  # fmt: skip
    if recipe.verb.gloss:
        descriptions += (f"{described.capitalize()} {recipe.noun}: {recipe.verb.gloss}",)
    return Family(
        "synthetic",
        names,
        descriptions,
        parameters,
        tuple(_draw_requests(recipe, parameters, words)),
    )  # fmt: skip


def _inflect(verb: str) -> str:
    """He, she or it does it: "takes over"."""
    first, space, rest = verb.partition(" ")
    if first[-1:] == "y" and first[-2:-1] not in "aeiou":
        return f"{first[:-1]}ies{space}{rest}"
    return f"{first}{'es' if first[-1:] in 'hsxzo' else 's'}{space}{rest}"


def _is_plain(noun: str) -> bool:
    return " " not in noun and noun.isalpha()


def _draw_requests(
    recipe: Recipe, parameters: tuple[Parameter, ...], words: Words
) -> list[tuple[str, str]]:
    """Patterns; what they leave out of the parameters is mentioned by `says`."""
    if recipe.said:
        several = (replace(recipe, noun=noun, said=()) for noun in _sample(recipe.said, 3, words))
        return [pair for one in several for pair in _draw_requests(one, parameters, words)]
    noun = _modify(recipe.noun, parameters, words)
    article = "an" if noun[:1] in "aeiou" else "a"
    the = words.random.choice(("the", "the", "my", "our", "this", "that"))
    plural = noun if noun.endswith("s") else f"{noun}s"
    things = (f"{the} {noun}", f"{article} {noun}", plural, f"{the} {plural}")
    named = _name(noun, the, parameters, words)
    requests = list[tuple[str, str]]()
    for order in _sample(recipe.verb.orders, 3, words):
        requests.append((">", f"{order} {named or words.random.choice(things)}"))
    for other in _sample(recipe.verb.others, 2, words):
        text = other.replace("{o}", named or f"{the} {noun}").replace("{a}", f"{article} {noun}")
        text = text.replace("{p}", plural).replace("{n}", noun)
        requests.append(("?", text.replace("{f}", MORE)))
    return requests


def _sample(texts: tuple[str, ...], count: int, words: Words) -> list[str]:
    return words.random.sample(texts, min(count, len(texts)))


def _modify(noun: str, parameters: tuple[Parameter, ...], words: Words) -> str:
    """The noun with a parameter in front of it: "strong coffee", "dark roast", "3 tickets"."""
    for parameter in parameters:
        key, value = parameter.key, words.random.random()
        if parameter.spec == "choice" and value < 0.4:
            return f"{{{key}}} {noun}" if parameter.required else f"[{{{key}}} ]{noun}"
        if parameter.spec == "bool" and parameter.names[-1].startswith("make_") and value < 0.5:
            hole = f"{{{key}!{parameter.names[0]}}}"
            return f"[{hole} ]{noun}" if not parameter.required else noun
        if parameter.spec in ("int 2..20", "int 2..40") and value < 0.3 and not parameter.required:
            return f"[{{{key}}} ]{noun}"
    return noun


def _name(noun: str, the: str, parameters: tuple[Parameter, ...], words: Words) -> str:
    """What is asked for, by a required text: "Dune", "the book Dune"; "" where there is none."""
    for parameter in parameters:
        if parameter.required and parameter.spec in NAMES and words.random.random() < 0.5:
            hole = f"{{{parameter.key}}}"
            return words.random.choice((hole, hole, f"{the} {noun} {hole}", f"{noun} {hole}"))
    return ""


def make_switch(noun: str, words: Words) -> Family:
    """A family whose tools switch something: the verb says true or false."""
    yes, no, state, other = words.random.choice(SWITCHES)
    names = ("on", "enabled", "active", "state", "value", state, f"is_{state}", yes.split()[0])
    switch = Parameter("switch", "bool", names, True, (f"true: {state}", f"Whether it is {state}"))
    where = tuple(p for p in draw_parts(words)[:1] if p.spec != "bool")
    verb = f"{{switch:{yes}/{no}}}"
    patterns = [
        (">", f"{verb} the {noun}"),
        (">", f"{verb} my {noun}"),
        (">", f"make sure the {noun} is {{switch:{state}/{other}}}"),
        ("?", f"the {noun} should be {{switch:{state}/{other}}}"),
        ("?", f"I want the {noun} {{switch:{state}/{other}}}"),
    ]
    if " o" in yes:
        patterns.append((">", f"{yes.split()[0]} the {noun} {{switch:{state}/{other}}}"))
    tools = (f"set {noun}", f"switch {noun}", f"{noun} set", f"toggle {noun}", f"{noun} control")
    described = (f"Switches the {noun}", f"{noun} {state} or {other}")
    return Family("synthetic", tools, described, (switch, *where), tuple(patterns))
