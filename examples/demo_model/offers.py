"""A tool on offer: a family with its names, schema and description drawn."""

import re
from dataclasses import dataclass, replace
from typing import Any

from examples.demo_model.families import Family, Parameter, read_parameters
from examples.demo_model.kinds import Kind, make_kind
from examples.demo_model.words import Words

EXTRAS = 0.3  # of the tools take more than their family says
FROM_PYTHON = 0.2  # of the tools look like those that are made of functions
STYLES = ("snake",) * 11 + ("camel",) * 4 + ("pascal", "kebab", "dotted", "dotted")


@dataclass(frozen=True)
class Slot:
    """A parameter of a tool on offer: its name there, and what it takes."""

    parameter: Parameter
    name: str
    kind: Kind


@dataclass(frozen=True)
class Offer:
    """A tool as the model is shown it, in OpenAI form, and how to ask for it."""

    family: Family
    name: str
    slots: tuple[Slot, ...]
    definition: dict[str, Any]

    def slot(self, key: str) -> Slot:
        """The slot of a family's parameter."""
        return next(slot for slot in self.slots if slot.parameter.key == key)


def spell(text: str, style: str) -> str:
    """Words in the style of code: `get weather` -> `get_weather`, `getWeather`, ..."""
    first, *rest = re.split(r"[ ._]", text)
    match style:
        case "camel":
            return first + "".join(part.capitalize() for part in rest)
        case "pascal":
            return "".join(part.capitalize() for part in [first, *rest])
        case "kebab":
            return "-".join([first, *rest])
        case "dotted" if rest:
            return f"{first}.{'_'.join(rest)}"
        case _:
            return "_".join([first, *rest])


def make_offer(family: Family, words: Words, style: str, extras: float = EXTRAS) -> Offer:
    """Draws a tool of a family.

    Args:
        style: how its names are spelled.
        extras: how likely it takes more than the family says.
    """
    parameters = list(family.parameters)
    if words.random.random() < 0.3:
        words.random.shuffle(parameters)
    if words.random.random() < extras:
        parameters += draw_parameters(words, words.random.choice((1, 1, 2)))
    slots = tuple(_draw_slots(parameters, words, "camel" if style == "camel" else "snake"))
    name = spell(words.random.choice(family.names), style)
    return Offer(family, name, slots, _define(family, name, slots, words))


def draw_parameters(words: Words, count: int) -> list[Parameter]:
    """Parameters that any tool may have, with keys of their own."""
    drawn = words.random.sample(read_parameters(), count)
    return [replace(p, key=f"extra{number}") for number, p in enumerate(drawn)]


def _draw_slots(parameters: list[Parameter], words: Words, style: str) -> list[Slot]:
    slots, taken = list[Slot](), set[str]()
    for parameter in parameters:
        name = spell(words.random.choice(parameter.names), style)
        if name in taken:
            name = next((n for n in parameter.names if n not in taken), f"{name}2")
        taken.add(name)
        slots.append(Slot(parameter, name, make_kind(parameter.spec, words)))
    return slots


def _define(family: Family, name: str, slots: tuple[Slot, ...], words: Words) -> dict[str, Any]:
    described = words.random.random() < 0.55
    properties = {slot.name: _describe(slot, words, described) for slot in slots}
    from_python = words.random.random() < FROM_PYTHON
    if from_python:
        for slot in slots:
            if not slot.parameter.required:
                properties[slot.name] = _make_optional(properties[slot.name], words)
    required = [slot.name for slot in slots if slot.parameter.required]
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required or words.random.random() < 0.3:
        parameters["required"] = required
    if from_python or words.random.random() < 0.12:
        parameters["additionalProperties"] = False
    function: dict[str, Any] = {"name": name}
    if family.descriptions and words.random.random() < 0.85:
        end = words.random.choice(("", "", "", "."))
        function["description"] = words.random.choice(family.descriptions) + end
    return {"type": "function", "function": function | {"parameters": parameters}}


def _make_optional(schema: dict[str, Any], words: Words) -> dict[str, Any]:
    """What pydantic makes of a parameter with a default."""
    if words.random.random() < 0.6:
        type_ = {key: value for key, value in schema.items() if key != "description"}
        rest = {key: value for key, value in schema.items() if key == "description"}
        return {"anyOf": [type_, {"type": "null"}], "default": None, **rest}
    match schema:
        case {"enum": [first, *_]}:
            return {**schema, "default": first}
        case {"type": "boolean"}:
            return {**schema, "default": False}
        case {"type": "string"}:
            return {**schema, "default": ""}
        case _:
            return schema


def _describe(slot: Slot, words: Words, described: bool) -> dict[str, Any]:
    shown = slot.parameter.descriptions
    if not (described and shown and words.random.random() < 0.8):
        return slot.kind.schema
    return {**slot.kind.schema, "description": words.random.choice(shown)}
