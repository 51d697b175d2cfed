"""The protocol for parsers in a process of their own (a pipe): requests and answers, one JSON
object a line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.errors import RequestError
from constrained.prompt.tools.shapes import as_openai
from grammars.schema.json_values import Json, JsonObject
from grammars.suite.parser_output import Reading
from grammars.suite.reading import Claims
from grammars.turn import Tool
from grammars.wire.format import Format

VERSION = 1
STREAM = "stream"
ABILITIES: Mapping[str, str] = {
    STREAM: "reads chunks, and answers with deltas",
    "content": "returns the text outside of the calls",
    "reasoning": "separates blocks of reasoning from content",
    "types": "uses the types of the schema to read arguments",
    "space": "leaves out the white space that the format writes around content",
    "damage": "loses nothing if a text is damaged or cut short; needs content",
}
"""The abilities that a parser may claim, and what they mean."""


@dataclass(frozen=True)
class ParserAbilities:
    """The abilities that a parser claims.

    Args:
        streams: it reads chunks.
        claims: the other abilities.
        names: the names of all claimed abilities, in the order of `ABILITIES`.
    """

    streams: bool
    claims: Claims
    names: tuple[str, ...]


def write_hello(format: Format) -> JsonObject:
    """Returns the first line to a parser."""
    # Models have special tokens for tags: where one is, no chunk ends within it.
    markers = [*format.markers, *format.structure]
    return {"id": 0, "hello": {"version": VERSION, "format": format.name, "markers": markers}}


def read_abilities(greeting: JsonObject) -> ParserAbilities:
    """Reads the abilities from a parser's answer to the first line.

    Raises:
        RequestError: it lists no abilities, an unknown one, or one without another that it needs.
    """
    abilities = greeting.get("can")
    hint = f"It is a list of: {', '.join(ABILITIES)}"
    if not isinstance(abilities, list):
        message = "the parser does not list its abilities"
        raise RequestError(message, where="/can", hint=hint)
    for i, name in enumerate(abilities):
        if name not in ABILITIES:
            message = f"the parser claims an unknown ability: {name!r}"
            raise RequestError(message, where=f"/can/{i}", hint=hint)
    if "damage" in abilities and "content" not in abilities:
        message = "a parser that claims damage has to claim content, too"
        raise RequestError(message, where="/can", hint=hint)
    # Languages with one type of numbers cannot distinguish 1.0 and 1.
    claims = {name: name in abilities for name in ABILITIES if name != STREAM}
    names = tuple(name for name in ABILITIES if name in abilities)
    return ParserAbilities(STREAM in abilities, claims=Claims(**claims, exact=False), names=names)


def write_text(tools: Sequence[Tool], text: str) -> JsonObject:
    """Returns a request to read a whole text, without its id."""
    return {"tools": write_tools(tools), "text": text}


def write_chunks(tools: Sequence[Tool], chunks: Sequence[str]) -> JsonObject:
    """Returns a request to read a text that arrives in chunks, without its id."""
    return {"tools": write_tools(tools), "chunks": list(chunks)}


def write_tools(tools: Sequence[Tool]) -> list[Any]:
    """Returns tools in OpenAI's form."""
    return as_openai([{"name": tool.name, "parameters": tool.schema.source} for tool in tools])


def show(value: object) -> Any:
    """Returns a reading, calls or events as JSON."""
    match value:
        case Reading():
            shown: dict[str, Any] = {"content": value.content}
            if value.reasoning:
                shown["reasoning"] = value.reasoning
            return shown | {"calls": _show_calls(value.calls)}
        case list():
            return [_show_item(item) for item in value]
        case _:
            return value


def _show_item(item: object) -> Any:
    if isinstance(item, tuple):
        return _show_calls([item])[0]
    return {"event": type(item).__name__, **vars(item)}


def _show_calls(calls: Sequence[tuple[str, Any]]) -> list[Json]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]
