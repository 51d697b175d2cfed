"""Writes the arguments of the current call as the text of one JSON object, while they are read.

Strings are written as they arrive, other values when they are complete. Boundaries mark where
arguments begin and end in the text, so no reader has to parse it again. `ArgumentStream` receives
values, `RawArguments` raw text that the schema gives a type; JSON goes to the sink as it is.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grammars.errors import CoerceError
from grammars.schema.json_values import Json
from grammars.schema.nodes import AnyValue, Constant, Schema, String, Violation, flatten
from grammars.schema.numbers import normalise_numbers
from grammars.spelling.coerce import Raw, TypedText, coerce, coerce_members, read_undeclared
from grammars.spelling.value_reader import escape_text
from grammars.turn import ArgumentEnd, ArgumentStart, Boundary
from grammars.wire.nodes import JsonStyle


@dataclass(frozen=True)
class CallSink:
    """Receives a call while it is read: first its name, then the text of its arguments, if it
    `streams`. Boundaries come with text; without, they are dropped."""

    open: Callable[[str], None]
    add: Callable[[str, Sequence[Boundary]], None]
    streams: bool = True

    def add_all(self, arguments: Mapping[str, Json]) -> None:
        """Adds all arguments at once."""
        if not self.streams:
            return
        boundaries: list[Boundary] = []
        for key, value in arguments.items():
            boundaries += [ArgumentStart(key), ArgumentEnd(key, value)]
        self.add(dump(arguments), boundaries)


class ArgumentStream:
    """Receives arguments one by one. If the schema allows several objects or is not known, writes
    all at the end. Of a repeated argument, the first one counts.

    Attributes:
        member: the schema of the current argument; None if it is not known.
        has_text: a part of the current argument's text is written.
        is_silent: nothing of the current argument is written until the end.
    """

    def __init__(self, schema: Schema | None, sink: CallSink):
        self.schema = schema
        self._sink = sink
        self._keys: set[str] = set()
        self._is_text = False
        self.key = ""
        self.member: Schema | None = None
        self.has_text = False
        self.is_silent = False
        self._is_late = not schema or len(schema.objects) != 1

    def open(self, key: str, *, is_text: bool | None = None) -> None:
        """Begins an argument. If it is not said whether it is a string, its schema says so."""
        self.key = key
        self.is_silent = self._is_late or key in self._keys or not self._sink.streams
        self.member = None
        if self.schema is not None and not self._is_late:
            self.member = self.schema.find_members(key)[0]
        if is_text is None:
            is_text = self.member is not None and _is_text(self.member)
        self._is_text, self.has_text = is_text, False
        before = ", " if self._keys else "{"
        self._keys.add(key)
        self._add(f"{before}{dump(key)}: ", ArgumentStart(key))

    def feed(self, text: str) -> None:
        if self._is_text and text:
            quote = "" if self.has_text else '"'
            self.has_text = True
            self._add(quote + escape_text(text))

    def close(self, value: Json) -> None:
        if not self.is_silent:
            self._add('"' if self.has_text else dump(value), ArgumentEnd(self.key, value))

    def end(self, arguments: Mapping[str, Json]) -> None:
        if self._is_late:
            self._sink.add_all(arguments)
        else:
            self._sink.add("}" if self._keys else "{}", ())

    def _add(self, text: str, *boundaries: Boundary) -> None:
        if not self.is_silent:
            self._sink.add(text, boundaries)


class RawArguments(ArgumentStream):
    """Receives arguments as raw text, and converts them to the types of the schema."""

    def __init__(self, schema: Schema | None, sink: CallSink, style: JsonStyle):
        super().__init__(schema, sink)
        self._style = style
        self._raws: dict[str, Raw] = {}
        self._parts: list[str] = []
        self._told: bool | None = None

    def open(self, key: str, *, is_text: bool | None = None) -> None:
        """Begins an argument. `is_text` is what the model says about its type; None: nothing."""
        self._parts = []
        self._told = is_text
        super().open(key, is_text=is_text)

    @property
    def may_be_text(self) -> bool:
        """True if the argument may be a text that begins like a container, or has no known
        schema."""
        if self._told is not None:
            return self._told
        options = self.schema.find_members(self.key) if self.schema else ()
        members = [member for member in options if member]
        return not members or any(map(_may_be_text, members))

    def feed(self, text: str) -> None:
        self._parts.append(text)
        super().feed(text)

    def close_raw(self) -> None:
        """Ends the argument. Of a repeated one, the first that is not empty counts."""
        text = "".join(self._parts)
        raw = text if self._told is None else TypedText(text, self._told, self._style)
        if self._is_text:
            self.close(text)
        elif not self.is_silent:
            self.close(self._read(raw))
        self._raws[self.key] = self._raws.get(self.key) or raw

    def finish(self) -> tuple[dict[str, Json], tuple[Violation, ...]]:
        """Ends the call; returns its arguments, and why they do not fit the schema."""
        if self.schema is None:
            arguments, errors = read_undeclared(self._raws), ()
        else:
            arguments, errors = coerce_members(self._raws, self.schema, self._style)
        self.end(arguments)
        return arguments, errors

    def _read(self, raw: Raw) -> Json:
        """Reads a raw value; returns the raw text if it does not fit the schema."""
        if isinstance(raw, TypedText):
            return raw.value if self.member is None else normalise_numbers(raw.value, self.member)
        if self.member is None:
            return raw
        try:
            return coerce(raw, self.member, self._style)
        except CoerceError:
            return raw


def _is_text(schema: Schema) -> bool:
    nodes = list(flatten(schema.node, schema.definitions))
    return bool(nodes) and all(isinstance(node, String) for node in nodes)


def _may_be_text(schema: Schema) -> bool:
    """Returns whether the schema allows a text that begins like a list or object."""
    for node in flatten(schema.node, schema.definitions):
        if isinstance(node, String | AnyValue):
            return True
        if isinstance(node, Constant):
            texts = [value for value in node.values if isinstance(value, str)]
            if any(text.startswith(("[", "{")) for text in texts):
                return True
    return False


def dump(value: Json | Mapping[str, Json]) -> str:
    return json.dumps(value, ensure_ascii=False)
