"""Families made of words: a verb, a noun and drawn parameters, in as many ways as there are words.

The request need not say the tool's own verb: `remove_ticket` answers "get rid of the ticket".
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from examples.demo_model.families import FOLDER, Family, Parameter, read_families
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
    """Verbs of tools that mean much the same, and what people say for them."""

    tools: tuple[str, ...]
    orders: tuple[str, ...]
    others: tuple[str, ...]


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
    """What a family is made of; one part changed gives a tool that is easily confused with it."""

    verb: VerbGroup
    noun: str


def draw_recipe(words: Words) -> Recipe:
    """A verb and a noun; the noun may be two words, or invented."""
    noun = _draw_noun(words)
    while not reserved_words().isdisjoint(noun.split()):
        noun = _draw_noun(words)
    return Recipe(words.random.choice(read_verbs()), noun)


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


def draw_neighbour(recipe: Recipe, words: Words) -> Recipe:
    """The same verb with another noun, or the same noun with another verb."""
    other = draw_recipe(words)
    if words.random.random() < 0.5:
        return Recipe(recipe.verb, other.noun)
    return Recipe(other.verb, recipe.noun)


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
    third = f"{described}{'es' if described[-1:] in 'hs' else 's'}"
    return Family(
        "synthetic",
        names,
        (f"{third.capitalize()} {article} {recipe.noun}", f"{described.capitalize()} {recipe.noun}",
         f"Use it to {described} {article} {recipe.noun}", f"{recipe.noun} {described}"),
        parameters,
        tuple(_draw_requests(recipe, parameters, words)),
    )  # fmt: skip


def _is_plain(noun: str) -> bool:
    return " " not in noun and noun.isalpha()


def _draw_requests(
    recipe: Recipe, parameters: tuple[Parameter, ...], words: Words
) -> list[tuple[str, str]]:
    """Patterns; what they leave out of the parameters is mentioned by `says`."""
    noun = _modify(recipe.noun, parameters, words)
    article = "an" if noun[:1] in "aeiou" else "a"
    the = words.random.choice(("the", "the", "my", "our", "this", "that"))
    plural = noun if noun.endswith("s") else f"{noun}s"
    things = (f"{the} {noun}", f"{article} {noun}", plural, f"{the} {plural}")
    named = _name(noun, the, parameters, words)
    requests = list[tuple[str, str]]()
    for order in words.random.sample(recipe.verb.orders, min(3, len(recipe.verb.orders))):
        requests.append((">", f"{order} {named or words.random.choice(things)}"))
    for other in words.random.sample(recipe.verb.others, min(2, len(recipe.verb.others))):
        text = other.replace("{o}", named or f"{the} {noun}").replace("{a}", f"{article} {noun}")
        text = text.replace("{p}", plural).replace("{n}", noun)
        requests.append(("?", text.replace("{f}", MORE)))
    return requests


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
