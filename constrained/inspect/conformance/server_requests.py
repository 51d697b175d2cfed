"""The requests for checking a server: tools, messages, and invalid requests, which it must
refuse."""

from dataclasses import dataclass
from typing import Any

from grammars.schema.json_values import JsonObject

MAX_TOKENS = 512
"""Enough for a call of each of the tools."""


def make_tool(
    name: str, description: str, properties: JsonObject, **keywords: Any
) -> dict[str, Any]:
    """Returns a tool in OpenAI's form, strict, with closed arguments; `keywords` are further ones
    of its schema."""
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    parameters |= {"required": list(properties), "additionalProperties": False, **keywords}
    function = {"name": name, "description": description, "parameters": parameters, "strict": True}
    return {"type": "function", "function": function}


WEATHER = make_tool(
    "get_weather",
    "The weather of a city",
    {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
)
FLIGHT = make_tool(
    "book_flight",
    "Books a flight",
    {
        "from": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "to": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "passengers": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "child": {"type": "boolean"}},
                "required": ["name", "child"],
                "additionalProperties": False,
            },
        },
        "seat": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
    },
)
TOOLS = (WEATHER, FLIGHT)
QUESTIONS = (
    "What is the weather in Paris for the next 3 days, in celsius?",
    "Book a flight from BER to CDG for Ann, who is no child, on any seat.",
)
ANSWER_SCHEMA = {
    "type": "object",
    "properties": {
        "capital": {"type": "string"},
        "continent": {"enum": ["Africa", "America", "Asia", "Europe", "Oceania"]},
        "rivers": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    },
    "required": ["capital", "continent", "rivers"],
    "additionalProperties": False,
}


def make_body(model: str, question: str, **fields: Any) -> dict[str, Any]:
    """Makes a request body that gets the same answer each time, if the server supports that."""
    messages = [{"role": "user", "content": question}]
    body = {"model": model, "messages": messages, "temperature": 0, "seed": 7}
    return {**body, "max_tokens": MAX_TOKENS, **fields}


def write_format(schema: Any) -> JsonObject:
    """Returns a response format for an answer that fits a schema."""
    format = {"name": "answer", "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": format}


@dataclass(frozen=True)
class Mistake:
    """A request that cannot be executed.

    Args:
        what: is wrong with it.
        fields: of the body.
    """

    what: str
    fields: JsonObject


def _mistake(what: str, parameters: Any) -> Mistake:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    return Mistake(what, {"tools": [tool], "tool_choice": "required"})


def _of_property(schema: Any) -> JsonObject:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


_UNKNOWN = {"type": "function", "function": {"name": "delete_everything"}}
_BAD_PATTERN = {"type": "string", "pattern": "(["}
_BAD_BOUNDS = {"type": "integer", "minimum": 5, "maximum": 1}
_BAD_TYPE = {"type": "strin"}
MISTAKES = (
    _mistake("a type that JSON Schema does not have", _of_property(_BAD_TYPE)),
    _mistake("a pattern that is not a regular expression", _of_property(_BAD_PATTERN)),
    _mistake("a reference to nowhere", _of_property({"$ref": "#/$defs/missing"})),
    _mistake("an enum without values", _of_property({"enum": []})),
    _mistake("bounds that no number fits", _of_property(_BAD_BOUNDS)),
    _mistake("parameters that are not an object", "city"),
    Mistake("a tool without a name", {"tools": [{"type": "function", "function": {}}]}),
    Mistake("a tool_choice of an unknown tool", {"tools": [WEATHER], "tool_choice": _UNKNOWN}),
    Mistake('tool_choice "required" without tools', {"tool_choice": "required"}),
    Mistake("an unknown tool_choice", {"tools": [WEATHER], "tool_choice": "perhaps"}),
    Mistake("an answer of an unknown type", {"response_format": write_format(_BAD_TYPE)}),
)
"""Mistaken requests, which have to get status 400: they are neither ignored nor server errors."""
