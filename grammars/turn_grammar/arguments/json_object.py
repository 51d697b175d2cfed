"""Arguments in JSON, or in a spelling of objects that is like it: alone, or in one object with the
name and the id of the call."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from grammars.errors import RenderError, ToolError
from grammars.schema.json_values import Json
from grammars.spelling.buffer import NotACallError, Steps
from grammars.spelling.styles import find_breaks, holds, spell
from grammars.spelling.value_reader import (
    REFUSED,
    DeepJsonError,
    Sign,
    ValueReader,
    read_json,
    read_value,
)
from grammars.turn import ArgumentEnd, ArgumentStart, Boundary
from grammars.turn_grammar.arguments.kind import (
    ArgumentRules,
    ArgumentsKind,
    CallParts,
    CallSource,
    CallsSpec,
    CallToWrite,
    Piece,
)
from grammars.turn_grammar.arguments.stream import CallSink
from grammars.turn_grammar.encoded import encode
from grammars.turn_grammar.ir.nodes import Literal, sequence
from grammars.turn_grammar.values import Values
from grammars.wire.format import Format
from grammars.wire.nodes import CallId, CallIndex, JsonArguments, JsonCall, JsonStyle

_SILENT = CallSink(open=lambda name: None, add=lambda text, boundaries: None, streams=False)
"""Receives the arguments of a call whose name is not known yet."""


class JsonKind(ArgumentsKind):
    def __init__(self, hole: JsonCall | JsonArguments, format: Format):
        super().__init__(format)
        self._hole = hole
        self._call = hole if isinstance(hole, JsonCall) else None
        self._is_encoded = isinstance(hole, JsonArguments) and hole.encoded

    @property
    def style(self) -> JsonStyle:
        """The style of the arguments. In an indented call, they are one level deeper."""
        style = self._hole.style
        return style if self._call is None else replace(style, level=style.level + 1)

    # The grammar.

    def make_rules(self, spec: CallsSpec) -> ArgumentRules:
        values = spec.values
        if not self._is_encoded:
            return lambda schema: values.value(schema.node, schema.definitions)
        builder, quote = values.builder, Literal('"')
        inner = Values(builder.respell(encode), self.style, values.order)
        return lambda schema: builder.define(
            sequence(quote, encode(inner.value(schema.node, schema.definitions)), quote), "encoded"
        )

    # What stands around the arguments in the object of a call, in the pieces of a JSON value.

    @property
    def id(self) -> CallId | CallIndex | None:
        return self._call.id if self._call else None

    def open_call(self, name: str, id: str | None) -> Sequence[Piece]:
        call = self._call
        if call is None:
            return ()
        style, breaks = call.style, find_breaks(call.style, call.style.level)
        pieces: list[Piece] = ["{" + breaks.open]
        if call.id is not None and call.id_first:
            pieces += [spell(call.id_key, style), style.key, *self._spell_id(id), breaks.item]
        pieces += [spell(call.name_key, style), style.key, spell(name, style), breaks.item]
        pieces += [spell(call.arguments_key, style), style.key]
        return pieces

    def close_call(self, id: str | None) -> Sequence[Piece]:
        call = self._call
        if call is None:
            return ()
        breaks = find_breaks(call.style, call.style.level)
        pieces: list[Piece] = []
        if call.id is not None and not call.id_first:
            key = spell(call.id_key, call.style)
            pieces += [breaks.item, key, call.style.key, *self._spell_id(id)]
        return [*pieces, breaks.close + "}"]

    def _spell_id(self, id: str | None) -> Sequence[Piece]:
        if id is not None:
            return [spell(id, self._hole.style)]
        assert self.id is not None
        quote = self._hole.style.quotes[0]
        return [quote, self.id, quote]

    def check_name(self, name: str) -> None:
        if isinstance(self.format.bare, JsonCall):
            opened = "".join(map(str, self.open_call(name, "")))
            if self.begins_content(opened):
                raise ToolError(f"{self._refusal(name)}: answers begin so", hint="Rename it")
        super().check_name(name)

    # The writer.

    def write(self, call: CallToWrite) -> str:
        arguments: Json = call.arguments  # of a cut call, they may be a text
        if not holds(arguments, self.style):
            message = "a key or string has text that the format cannot represent"
            raise RenderError(message, where=call.where)
        text = spell(arguments, self.style)
        return json.dumps(text, ensure_ascii=False) if self._is_encoded else text

    # The reader.

    @property
    def beginnings(self) -> tuple[str, ...]:
        return ('"', "{") if self._is_encoded else ("{",)

    def read(self, source: CallSource, parts: CallParts) -> Steps[None]:
        if self._is_encoded and (yield from source.buffer.sees('"')):
            yield from self._read_encoded(source, parts)
        else:
            yield from self._read_object(source, parts)

    def _read_encoded(self, source: CallSource, parts: CallParts) -> Steps[None]:
        """Reads an object in a JSON string. The sink gets the arguments when they are complete."""
        yield from source.buffer.space()
        try:
            string = yield from source.buffer.value(ValueReader(JsonStyle()))
            arguments: Json = read_value(str(read_json(string)), self._hole.style)
        except ValueError as e:
            raise _refuse(e, source) from None
        if not isinstance(arguments, dict):
            raise NotACallError
        parts.arguments = cast(dict[str, Json], arguments)
        parts.is_held = not parts.name
        if parts.name:
            source.sink.add_all(parts.arguments)

    def _read_object(self, source: CallSource, parts: CallParts) -> Steps[None]:
        yield from source.buffer.space()
        if (yield from source.buffer.need()) != "{":
            raise NotACallError
        parts.is_held = self._call is None and not parts.name
        stream = JsonStream(self._hole, _SILENT if parts.is_held else source.sink)
        name: Json = ""
        id: Json = None
        try:
            text = yield from source.buffer.value(stream.reader, stream.feed)
            arguments: Json = read_json(text)
            if self._call is not None:
                members = cast(dict[str, Json], arguments)
                name, id = members.get(self._call.name_key), members.get(self._call.id_key)
                arguments = _find_arguments(self._call, members, recover=source.recover)
        except ValueError as e:
            raise _refuse(e, source) from None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise NotACallError
        parts.name = name or parts.name
        parts.arguments = cast(dict[str, Json], arguments)
        if self._call is not None and id not in (None, ""):
            _keep_id(self._call, id, parts)


def _refuse(error: ValueError, source: CallSource) -> Exception:
    """Returns what to raise for text that cannot be read. A mask does not limit the depth, so what
    is too deep is a call there, not text."""
    is_call = isinstance(error, DeepJsonError) and not source.recover
    return error if is_call else NotACallError()


def _find_arguments(node: JsonCall, members: dict[str, Json], *, recover: bool) -> Json:
    """Returns the arguments in a JSON call. In recovery, they may be missing, or text."""
    known = (node.name_key, node.id_key, node.arguments_key)
    if any(key not in known for key in members):
        raise NotACallError  # something would be lost
    if not recover:
        return members.get(node.arguments_key)
    arguments = members.get(node.arguments_key, {})
    return read_json(arguments) if isinstance(arguments, str) else arguments


def _keep_id(node: JsonCall, id: Json, parts: CallParts) -> None:
    if not isinstance(id, str | int) or isinstance(id, bool):
        raise NotACallError
    if isinstance(node.id, CallIndex):
        parts.counter, parts.index = node.id, str(id)
    else:
        parts.id = str(id)


class JsonStream:
    """Receives a call, or its arguments, as it arrives, and passes the arguments on as JSON. If the
    name does not come first, the sink gets nothing. `reader` must see each piece before `feed`
    does."""

    def __init__(self, node: JsonCall | JsonArguments, sink: CallSink):
        self._sink = sink
        self._members = _MemberFinder()
        self._head = _compile_head(node) if isinstance(node, JsonCall) else None
        self._before = ""  # the text before the arguments of a JSON call
        self._is_over = False  # the arguments are complete, or cannot be streamed
        self.reader = ValueReader(node.style, told_level=1 if self._head is None else 2)

    def feed(self, _piece: str) -> None:
        """Takes what the reader has made of the next piece. An escape that the style does not have
        ends what is passed on; the whole text is read, and refused, at its end."""
        if self._is_over:
            return
        piece, refused, _ = self.reader.json.partition(REFUSED)
        self._is_over = bool(refused)
        signs = [sign for sign in self.reader.signs if sign.offset < len(piece)]
        start, stop = 0, len(piece)
        if self._head is not None:
            if not signs:
                self._before += piece
                return
            start = signs[0].offset
            head = self._head.fullmatch(self._before + piece[:start])
            if head is None or signs[0].text != "{":
                self._is_over = True
                return
            self._head = None
            self._sink.open(json.loads(head[1]))
        for sign in signs:
            if sign.text in "}]":
                self._is_over = True
                stop = sign.offset + 1
                break
        if self._sink.streams:
            boundaries = self._members.read(piece[:stop], signs, start)
            self._sink.add(piece[start:stop], boundaries)


def _compile_head(node: JsonCall) -> re.Pattern[str]:
    """Returns a pattern for the text before the arguments; its first group is the name."""
    name, arguments, id = (
        rf"{re.escape(json.dumps(key))}\s*:\s*"
        for key in (node.name_key, node.arguments_key, node.id_key)
    )
    string = r'"(?:[^"\\]|\\.)*"'
    first = rf"{id}{string}\s*,\s*" if node.id and node.id_first else ""
    return re.compile(rf"\{{\s*{first}{name}({string})\s*,\s*{arguments}")


class _MemberFinder:
    """Finds where the members of an object begin and end, from the signs of its own level."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._parts: list[str] = []  # of the current key or value
        self._is_broken = False

    def read(self, text: str, signs: Sequence[Sign], start: int) -> Sequence[Boundary]:
        """Returns the boundaries in the next piece, from `start` on; none any more after text that
        is not JSON, or is nested too deeply: such a call is not valid."""
        if self._is_broken:
            return ()
        try:
            return self._read(text, signs, start)
        except ValueError:
            self._is_broken = True
            return ()

    def _read(self, text: str, signs: Sequence[Sign], start: int) -> Sequence[Boundary]:
        found: list[Boundary] = []
        for sign in signs:
            if sign.offset >= len(text):
                break
            if sign.text == ":" and self._key is not None:
                continue  # not JSON; reading the value reports it
            part = "".join([*self._parts, text[start : sign.offset]])
            self._parts = []
            start = sign.offset + 1
            if sign.text == ":":
                self._key = str(read_json(part))
                found.append(ArgumentStart(self._key))
            elif self._key is not None and sign.text in ",}]":
                found.append(ArgumentEnd(self._key, read_json(part)))
                self._key = None
        self._parts.append(text[start:])
        return found
