"""Writes the arguments of the current call as the text of one JSON object, piece by piece.

Strings are written as they arrive, other values when they are complete. Boundaries mark where
arguments begin and end in the text, so no reader has to parse it again.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from grammars.errors import CoerceError
from grammars.parse.buffer import Sign, make_scanner
from grammars.schema.json_values import Json
from grammars.schema.nodes import AnyValue, Constant, Schema, String, flatten
from grammars.schema.numbers import normalise_numbers
from grammars.spelling.coerce import TypedText, coerce
from grammars.spelling.reading import find_words, read_json
from grammars.spelling.styles import speaks_json
from grammars.turn import ArgumentEnd, ArgumentStart, Boundary
from grammars.wire.format import JsonArguments, JsonCall, JsonStyle


@dataclass(frozen=True)
class CallSink:
    """Receives a call while it is read: first its name, then the text of its arguments."""

    open: Callable[[str], None]
    add: Callable[[str, Sequence[Boundary]], None]

    def add_all(self, arguments: Mapping[str, Json]) -> None:
        """Adds all arguments at once."""
        boundaries: list[Boundary] = []
        for key, value in arguments.items():
            boundaries += [ArgumentStart(key), ArgumentEnd(key, value)]
        self.add(_dump(arguments), boundaries)


class JsonWriter:
    """Receives the text of a JSON call, or of JSON arguments, as it arrives.

    If the name does not come first, the sink gets nothing. If the text is neither JSON nor JSON
    with raw strings, the sink gets everything at the end.

    Args:
        node: how the format writes the call.
        sink: receives the name and the arguments.

    Attributes:
        scanner: finds the end of the text; it must see each piece before `feed` does.
    """

    def __init__(self, node: JsonCall | JsonArguments, sink: CallSink):
        self._sink = sink
        self._members = _MemberFinder()
        self._head = _compile_head(node) if isinstance(node, JsonCall) else None
        self._before = ""  # the text before the arguments of a JSON call
        self._is_over = False  # the arguments are complete, or cannot be streamed
        self._level = 1 if self._head is None else 2
        is_raw = isinstance(node, JsonArguments) and not node.style.escapes
        self._translator = RawToJson(node.style) if is_raw else None
        self._is_late = not is_raw and not speaks_json(node.style)
        self.scanner = make_scanner(node.style, 0 if self._is_late else self._level)

    def feed(self, piece: str) -> None:
        """Reads the next piece.

        Raises:
            ValueError: the text is not an object in this style.
        """
        if self._translator is not None:
            text = self._translator.feed(piece)
            self._pass_on(text, [sign for sign in self._translator.signs if sign.level == 1])
        elif not self._is_late and not self._is_over:
            self._feed_json(piece, [s for s in self.scanner.signs if s.level == self._level])

    def _feed_json(self, piece: str, signs: Sequence[Sign]) -> None:
        """Reads the next piece of JSON, with the signs of the arguments' own level."""
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
            piece = piece[start:]
            signs = [replace(sign, offset=sign.offset - start) for sign in signs]
        for number, sign in enumerate(signs, 1):
            if sign.text in "}]":
                self._is_over = True
                piece, signs = piece[: sign.offset + 1], signs[:number]
                break
        self._pass_on(piece, signs)

    def _pass_on(self, text: str, signs: Sequence[Sign]) -> None:
        """Passes on a piece of the arguments' JSON text, with the signs of its own level."""
        self._sink.add(text, self._members.read(text, signs))

    def end(self, name: Json, arguments: Json) -> None:
        """Ends the call; `name` is empty if the format writes it elsewhere."""
        if self._is_late and isinstance(name, str) and isinstance(arguments, dict):
            if name:
                self._sink.open(name)
            self._sink.add_all(cast(dict[str, Json], arguments))


def _compile_head(node: JsonCall) -> re.Pattern[str]:
    """Returns a pattern for the text before the brace of the arguments; its first group is the
    name."""
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

    def read(self, text: str, signs: Sequence[Sign]) -> Sequence[Boundary]:
        """Returns the boundaries in the next piece of text. After text that is not JSON, or that is
        nested too deeply, there are no more: such a call is not valid."""
        if self._is_broken:
            return ()
        try:
            return self._read(text, signs)
        except ValueError:
            self._is_broken = True
            return ()

    def _read(self, text: str, signs: Sequence[Sign]) -> Sequence[Boundary]:
        found: list[Boundary] = []
        start = 0
        for sign in signs:
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


_WORD = re.compile(r"[^\s,:{}\[\]]+")
_JSON_SIGNS = {"{": "{", "}": "}", "[": "[", "]": "]", ",": ", ", ":": ": "}


class RawToJson:
    """Converts an object with raw strings to JSON as it arrives.

    Args:
        style: how the format writes the object; its strings have no escapes.

    Attributes:
        signs: the signs in the last text that `feed` returned.
    """

    def __init__(self, style: JsonStyle):
        self._quote = style.quotes[0]
        self._words = find_words(style)
        self._rest = ""  # the text that is not written yet
        self._is_quoted = False
        self._brackets = ""  # the open brackets, the innermost last
        self._is_key = False  # a key comes next
        self.signs: list[Sign] = []

    def feed(self, piece: str) -> str:
        """Returns the next piece of JSON text, as far as it is certain.

        Raises:
            ValueError: the text is not an object in this style.
        """
        self._rest += piece
        self.signs = []
        text = ""
        while self._rest:
            part = self._read_string() if self._is_quoted else self._read_part(len(text))
            if part is None:
                break
            text += part
        return text

    def _read_string(self) -> str | None:
        text, end, after = self._rest.partition(self._quote)
        if end:
            self._is_quoted = False
            self._rest = after
            return _escape(text) + '"'
        kept = next(n for n in range(len(self._quote), -1, -1) if text.endswith(self._quote[:n]))
        text, self._rest = text[: len(text) - kept], text[len(text) - kept :]
        return _escape(text) or None

    def _read_part(self, offset: int) -> str | None:
        """Returns a key, word or sign at this index in JSON; None if it is not complete."""
        rest, first = self._rest, self._rest[0]
        if first in _JSON_SIGNS:
            self._count(first, offset)
            return self._take(1, _JSON_SIGNS[first])
        if first.isspace():
            return self._take(1, "")
        if rest.startswith(self._quote):
            self._is_quoted = True
            return self._take(len(self._quote), '"')
        if self._quote.startswith(rest):
            return None
        if self._is_key:
            key, end, _ = rest.partition(":")
            return self._take(len(key), f'"{_escape(key.strip())}"') if end else None
        word = _WORD.match(rest)
        if word is None or word.end() == len(rest):
            return None
        return self._take(word.end(), self._translate(word.group()))

    def _take(self, count: int, written: str) -> str:
        self._rest = self._rest[count:]
        return written

    def _count(self, sign: str, offset: int) -> None:
        if sign in "{[":
            self._brackets += sign
        self.signs.append(Sign(sign, offset, level=len(self._brackets)))
        if sign in "}]":
            self._brackets = self._brackets[:-1]
        self._is_key = sign in "{," and self._brackets.endswith("{")

    def _translate(self, word: str) -> str:
        if word in self._words:
            return self._words[word]
        read_json(word)
        return word


class ArgumentsWriter:
    """Writes arguments one by one. If the schema allows several objects or is not known, writes all
    at the end. Of a repeated argument, the first one counts.

    Args:
        schema: the schema of the arguments; None: an unknown tool.
        sink: receives the JSON text.
    """

    def __init__(self, schema: Schema | None, sink: CallSink):
        self._schema = schema if schema and len(schema.objects) == 1 else None
        self._sink = sink
        self._before = "{"
        self._keys: set[str] = set()
        self._key = ""
        self._is_repeated = False

    def find_member(self, key: str) -> Schema | None:
        """Returns the schema of an argument; None if it is not known."""
        return self._schema.find_members(key)[0] if self._schema else None

    def begin(self, key: str, quote: str = "") -> None:
        """Begins an argument; `quote` is the opening quote of a string."""
        self._key = key
        self._is_repeated = key in self._keys
        self._keys.add(key)
        self._add(f"{self._before}{_dump(key)}: {quote}", ArgumentStart(key))
        self._before = ", "

    def add(self, text: str) -> None:
        """Adds more of the argument's JSON text."""
        self._add(text)

    def finish(self, text: str, value: Json) -> None:
        """Ends the argument, with the rest of its JSON text and its value."""
        self._add(text, ArgumentEnd(self._key, value))

    def end(self, arguments: Mapping[str, Json]) -> None:
        """Ends the call; `arguments` are all its arguments."""
        if self._schema is None:
            self._sink.add_all(arguments)
        elif not self._keys:
            self._sink.add("{}", ())
        else:
            self._sink.add("}", ())

    @property
    def is_silent(self) -> bool:
        """True if nothing of the current argument is written yet."""
        return self._schema is None or self._is_repeated

    def _add(self, text: str, *boundaries: Boundary) -> None:
        if not self.is_silent:
            self._sink.add(text, boundaries)


class TaggedWriter:
    """Receives raw arguments as they arrive: those between tags or in a call in Python.

    Args:
        schema: the schema of the arguments; None: an unknown tool.
        sink: receives their JSON text.
        style: how the format writes values other than text.
    """

    def __init__(self, schema: Schema | None, sink: CallSink, style: JsonStyle | None):
        self._schema = schema
        self._style = style
        self._writer = ArgumentsWriter(schema, sink)
        self._kind: bool | None = None
        self._member: Schema | None = None
        self._is_text = False
        self._parts: list[str] = []
        self.is_spelled = False  # the value cannot be text

    def open(self, key: str, is_text: bool | None = None) -> None:
        """Begins an argument.

        Args:
            key: its name.
            is_text: what the model says about its type; None: nothing.
        """
        self._parts = []
        self._kind = is_text
        self._member = self._writer.find_member(key)
        if is_text is None:
            self.is_spelled = not self._may_be_text(key)
            self._is_text = self._member is not None and _is_text(self._member)
        else:
            self.is_spelled = not is_text
            self._is_text = is_text
        self._writer.begin(key, '"' if self._is_text else "")

    def feed(self, raw: str) -> None:
        """Adds more of the raw value."""
        self._parts.append(raw)
        if self._is_text:
            self._writer.add(_escape(raw))

    def close(self) -> str:
        """Ends the argument; returns its raw value."""
        raw = "".join(self._parts)
        if self._is_text:
            self._writer.finish('"', raw)
        elif not self._writer.is_silent:
            value = self._read(raw)
            self._writer.finish(_dump(value), value)
        return raw

    def end(self, arguments: Mapping[str, Json]) -> None:
        """Ends the call; `arguments` are all its arguments."""
        self._writer.end(arguments)

    def _may_be_text(self, key: str) -> bool:
        """Returns whether the argument may be a text that begins like a list or object; also if its
        schema is not known."""
        options = self._schema.find_members(key) if self._schema else ()
        members = [member for member in options if member]
        return not members or any(map(_may_be_text, members))

    def _read(self, raw: str) -> Json:
        """Reads a raw value; returns the raw text if it does not fit the schema."""
        if self._kind is False:
            value = TypedText(raw, is_text=False, style=self._style).value
            return value if self._member is None else normalise_numbers(value, self._member)
        if self._member is None:
            return raw
        try:
            return coerce(raw, self._member, self._style)
        except CoerceError:
            return raw


class NestedWriter:
    """Receives arguments between nested tags as they arrive.

    Args:
        schema: the schema of the arguments; None: an unknown tool.
        sink: receives their JSON text.
    """

    def __init__(self, schema: Schema | None, sink: CallSink):
        self._writer = ArgumentsWriter(schema, sink)
        self._is_text = False
        self.has_text = False  # a part of the argument's text is written

    def open(self, key: str) -> None:
        """Begins an argument."""
        member = self._writer.find_member(key)
        self._is_text = member is not None and _is_text(member)
        self.has_text = False
        self._writer.begin(key)

    def feed(self, text: str) -> None:
        """Adds more of the text at the beginning of the argument."""
        if self._is_text and text:
            quote = "" if self.has_text else '"'
            self._writer.add(quote + _escape(text))
            self.has_text = True

    def close(self, value: Json) -> None:
        """Ends the argument."""
        self._writer.finish('"' if self.has_text else _dump(value), value)

    def end(self, arguments: Mapping[str, Json]) -> None:
        """Ends the call; `arguments` are all its arguments."""
        self._writer.end(arguments)


def _is_text(schema: Schema) -> bool:
    """Returns whether the schema allows only text."""
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


def _dump(value: Json | Mapping[str, Json]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _escape(text: str) -> str:
    """Escapes a text for a JSON string."""
    return _dump(text)[1:-1]
