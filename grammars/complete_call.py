"""Reads the beginning of a call of one tool, and ends it in the shortest way."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from grammars.complete_argument import TaggedObject
from grammars.complete_json import JsonReader
from grammars.complete_scalar import Fit, fit_words, join
from grammars.complete_tagged import TaggedReader
from grammars.lark import open_json_call
from grammars.schema import Schema
from grammars.shortest import Shortest
from grammars.turn import Tool
from grammars.wire import (
    JsonArguments,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Name,
    Node,
    TaggedArguments,
)


class Part(Protocol):
    """A part of a call."""

    @property
    def shortest(self) -> str | None:
        """Its shortest text; None if none is known."""
        ...

    def read(self, text: str, at: int) -> Fit:
        """How the text fits from that index on."""
        ...


class Fixed:
    """Text that stands there as it is."""

    def __init__(self, text: str):
        self.shortest = text

    def read(self, text: str, at: int) -> Fit:
        return fit_words(text, at, self.shortest)


class Value:
    """A JSON value that fits a schema."""

    def __init__(self, schema: Schema, shortest: Shortest):
        self._node = schema.node
        self._shortest = shortest
        self.shortest = shortest.value(schema.node)

    def read(self, text: str, at: int) -> Fit:
        return JsonReader(self._shortest, text).value(self._node, at)


class Arguments:
    """Tagged arguments that fit a schema."""

    def __init__(self, schema: Schema, tags: TaggedArguments, shortest: Shortest):
        self._shortest = shortest
        self._objects = [TaggedObject(o, tags, shortest) for o in schema.objects]
        fit = self.read("", 0)
        self.shortest = fit if isinstance(fit, str) else None

    def read(self, text: str, at: int) -> Fit:
        json = JsonReader(self._shortest, text)
        return TaggedReader(self._objects, json, text).arguments(at)


class Call:
    """Some nodes of a format, as they are written for one tool."""

    def __init__(self, tool: Tool, nodes: Sequence[Node], style: JsonStyle):
        shortest = Shortest(style, tool.schema.definitions)
        self._parts = [part for node in nodes for part in _spell(node, tool, shortest)]
        self.shortest = join(*(part.shortest for part in self._parts))

    def read(self, text: str, at: int) -> Fit:
        """How the text fits from that index on."""
        for i, part in enumerate(self._parts, 1):
            fit = part.read(text, at)
            if not isinstance(fit, int):
                return join(fit, *(rest.shortest for rest in self._parts[i:]))
            at = fit
        return at


def _spell(node: Node, tool: Tool, shortest: Shortest) -> Iterator[Part]:
    match node:
        case Literal(text) | Marker(text):
            yield Fixed(text)
        case Name():
            yield Fixed(tool.name)
        case JsonCall():
            yield Fixed(open_json_call(node, tool.name))
            yield Value(tool.schema, shortest)
            yield Fixed("}")
        case JsonArguments():
            yield Value(tool.schema, shortest)
        case TaggedArguments():
            yield Arguments(tool.schema, node, shortest)
