"""Reads the beginning of a call of one tool, and ends it in the shortest way."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from grammars.build.calls import INDEX
from grammars.complete.argument import TaggedObject
from grammars.complete.json import JsonReader
from grammars.complete.nested import NestedPart
from grammars.complete.python import PythonPart
from grammars.complete.scalar import Fit, fit_words, join
from grammars.complete.shortest import Shortest
from grammars.complete.tagged import TaggedReader
from grammars.regex.automaton import compile_regexes
from grammars.schema.members import KeyOrder
from grammars.schema.nodes import Schema
from grammars.spelling.json_call import ANY_ID, WRITTEN_ID, close_json_call, open_json_call
from grammars.spelling.languages import SizedTexts, Unknown
from grammars.spelling.python import find_ends
from grammars.turn import Tool
from grammars.wire.format import (
    CallId,
    CallIndex,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Name,
    NestedArguments,
    Node,
    PythonArguments,
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

    def __init__(
        self, schema: Schema, tags: TaggedArguments, shortest: Shortest, tokens: Sequence[str]
    ):
        self._shortest = shortest
        self._tokens = tokens
        self._objects = [TaggedObject(o, tags, shortest) for o in schema.objects]
        fit = self.read("", 0)
        self.shortest = fit if isinstance(fit, str) else None

    def read(self, text: str, at: int) -> Fit:
        json = JsonReader(self._shortest, text)
        return TaggedReader(self._objects, json, text, self._tokens).arguments(at)


class Made:
    """An id that the model makes up."""

    def __init__(self, pattern: str, ends: str):
        automaton = compile_regexes((pattern,))
        self._language = SizedTexts(0, None, automaton) if automaton else Unknown()
        self._characters = re.compile(rf"[^{re.escape(ends)}]*" if ends else ".*")
        self.shortest = self._language.extend("")

    def read(self, text: str, at: int) -> Fit:
        match = self._characters.match(text, at)
        assert match
        if match.end() < len(text):
            return match.end()
        return self._language.extend(match.group())


@dataclass(frozen=True)
class Chain:
    """What the arguments of calls in Python have to know of the other calls.

    Args:
        names: those of all tools.
        follow: what may stand behind the arguments of a call.
    """

    format: Format
    names: tuple[str, ...]
    follow: tuple[str, ...]


class Call:
    """Some nodes of a format, as they are written for one tool; with this index, if it is exact."""

    def __init__(
        self,
        tool: Tool,
        nodes: Sequence[Node],
        style: JsonStyle,
        index: int | None = None,
        chain: Chain | None = None,
        tokens: Sequence[str] = (),
        order: KeyOrder = KeyOrder.ANY,
    ):
        shortest = Shortest(style, tool.schema.definitions, order)
        self._parts = [
            part
            for node, follower in zip(nodes, [*nodes[1:], None], strict=True)
            for part in _spell(node, follower, tool, shortest, index, chain, tokens)
        ]
        self.shortest = join(*(part.shortest for part in self._parts))

    def read(self, text: str, at: int) -> Fit:
        """How the text fits from that index on."""
        for i, part in enumerate(self._parts, 1):
            fit = part.read(text, at)
            if not isinstance(fit, int):
                return join(fit, *(rest.shortest for rest in self._parts[i:]))
            at = fit
        return at


def _spell(
    node: Node,
    follower: Node | None,
    tool: Tool,
    shortest: Shortest,
    index: int | None,
    chain: Chain | None,
    tokens: Sequence[str],
) -> Iterator[Part]:
    match node:
        case Literal(text) | Marker(text):
            yield Fixed(text)
        case Name():
            yield Fixed(tool.name)
        case CallId() | CallIndex():
            ends = follower.text[:1] if isinstance(follower, Literal | Marker) else ""
            yield _identify(node, index, ends)
        case JsonCall():
            yield from _spell_json(node, tool, shortest, index)
        case JsonArguments():
            yield Value(tool.schema, shortest)
        case TaggedArguments():
            yield Arguments(tool.schema, node, shortest, tokens)
        case NestedArguments():
            yield NestedPart(tool.schema, node, shortest, is_token=node.mark in tokens)
        case PythonArguments():
            assert chain is not None
            ends = find_ends(chain.format, chain.names, tool.schema)
            yield PythonPart(tool.schema, node, ends, chain.follow, shortest, tokens)


def _spell_json(
    node: JsonCall, tool: Tool, shortest: Shortest, index: int | None
) -> Iterator[Part]:
    """The parts of a JSON call; the id, as a string, has quotes around it."""
    head, behind = open_json_call(node, tool.name, ANY_ID), close_json_call(node, ANY_ID)
    before, _, after = head.partition(WRITTEN_ID)
    yield Fixed(before)
    if node.id is not None and node.id_first:
        yield _identify(node.id, index, '"')
        yield Fixed(after)
    yield Value(tool.schema, shortest)
    before, _, after = behind.partition(WRITTEN_ID)
    yield Fixed(before)
    if node.id is not None and not node.id_first:
        yield _identify(node.id, index, '"')
        yield Fixed(after)


def _identify(node: CallId | CallIndex, index: int | None, ends: str) -> Part:
    if isinstance(node, CallId):
        return Made(node.pattern, ends)
    return Made(INDEX.strip("/"), ends) if index is None else Fixed(str(index))
