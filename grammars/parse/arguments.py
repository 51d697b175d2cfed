"""The arguments of a call under way, told piece by piece as the text of one JSON object."""

import json
import re
from collections.abc import Callable
from typing import TypeAlias, cast

from grammars.errors import CoerceError
from grammars.parse.json_writer import RawTeller
from grammars.parse.scanners import JsonScanner
from grammars.schema.nodes import AnyValue, Constant, Json, Schema, String, flatten
from grammars.schema.numbers import settle
from grammars.spelling.coerce import Told, coerce
from grammars.spelling.styles import speaks_json
from grammars.wire.format import JsonArguments, JsonCall, JsonStyle

Tell: TypeAlias = Callable[[str | None, str], None]
"""Is told the name of a call, then (None, more of its arguments)."""


class JsonCallText:
    """Finds name and arguments in the text of a JSON call that arrives in pieces.

    Args:
        node: how the call is written.
        tell: is told of them; of nothing where the name does not come first, and at the end only
            where what is written is neither JSON nor arguments with raw strings.
    """

    def __init__(self, node: JsonCall | JsonArguments, tell: Tell):
        self._tell = tell
        self._head = _compile_head(node) if isinstance(node, JsonCall) else None
        self._text = ""
        is_raw = isinstance(node, JsonArguments) and not node.style.escapes
        self._raw = RawTeller(node.style) if is_raw else None
        self._late = not (speaks_json(node.style) or is_raw)
        self._scanner: JsonScanner | None = JsonScanner()

    def feed(self, piece: str) -> None:
        """Reads on."""
        if self._late:
            return
        if self._raw is not None:
            if told := self._raw.feed(piece):
                self._tell(None, told)
            return
        if self._head is not None:
            self._text += piece
            if (match := self._head.match(self._text)) is None:
                return
            self._head, piece = None, self._text[match.end() :]
            self._tell(json.loads(match[1]), "")
        if self._scanner is not None and piece:
            end = self._scanner.feed(piece, 0)
            self._tell(None, piece[:end])
            self._scanner = self._scanner if end is None else None

    def end(self, name: Json, arguments: Json) -> None:
        """All has been read; `name` is empty where it stands elsewhere."""
        if self._late and isinstance(name, str) and isinstance(arguments, dict):
            if name:
                self._tell(name, "")
            self._tell(None, _spell(cast(Json, arguments)))


def _compile_head(node: JsonCall) -> re.Pattern[str]:
    """What stands before the arguments, up to their brace; the name is the first group."""
    name, arguments, id = (
        rf"{re.escape(json.dumps(key))}\s*:\s*"
        for key in (node.name_key, node.arguments_key, node.id_key)
    )
    string = r'"(?:[^"\\]|\\.)*"'
    first = rf"{id}{string}\s*,\s*" if node.id and node.id_first else ""
    return re.compile(rf"\{{\s*{first}{name}({string})\s*,\s*{arguments}(?=\{{)")


class TaggedText:
    """Writes tagged arguments as JSON while they are read: text at once, other values when they
    are complete, and all at the end where the schema admits several objects.

    Args:
        schema: that of the arguments; None for an unknown tool.
        tell: is told of the JSON text.
        style: how values other than text are spelled.
    """

    def __init__(self, schema: Schema | None, tell: Tell, style: JsonStyle | None = None):
        self._style = style
        self._all = schema
        self._schema = schema if schema and len(schema.objects) == 1 else None
        self.is_spelled = False  # no text can stand there
        self._tell = tell
        self._before = "{"
        self._told: set[str] = set()
        self._silent = False  # of a repeated argument: the first one counts
        self._member: Schema | None = None
        self._is_text = False
        self._told_text: bool | None = None
        self._parts: list[str] = []

    def open(self, key: str, told: bool | None = None) -> None:
        """An argument begins; it may be told whether it is text."""
        self._parts = []
        self._told_text = told
        members = [m for m in self._all.find_members(key) if m] if self._all else []
        spelled = bool(members) and not any(map(_may_be_text, members))
        self.is_spelled = spelled if told is None else not told
        if self._schema is None:
            return
        self._silent = key in self._told
        self._told.add(key)
        self._member = self._schema.find_members(key)[0]
        self._is_text = self._member is not None and _is_text(self._member)
        self._is_text = self._is_text if told is None else told
        quote = '"' if self._is_text else ""
        self._say(f"{self._before}{_spell(key)}: {quote}")
        self._before = ", "

    def feed(self, raw: str) -> None:
        """More of its raw value."""
        self._parts.append(raw)
        if self._schema is not None and self._is_text:
            self._say(_spell(raw)[1:-1])

    def close(self) -> str:
        """The argument is over; returns its raw value."""
        raw = "".join(self._parts)
        if self._schema is not None:
            self._say('"' if self._is_text else _spell(self._read(raw)))
        return raw

    def end(self, arguments: dict[str, Json]) -> None:
        """There are no more arguments; these are all."""
        if self._schema is None:
            self._tell(None, _spell(arguments))
        else:
            self._tell(None, "{}" if self._before == "{" else "}")

    def _say(self, text: str) -> None:
        if not self._silent:
            self._tell(None, text)

    def _read(self, raw: str) -> Json:
        try:
            if self._told_text is False:
                value = Told(raw, is_text=False, style=self._style).value
                return value if self._member is None else settle(value, self._member)
            return raw if self._member is None else coerce(raw, self._member, self._style)
        except CoerceError:
            return raw


def _is_text(schema: Schema) -> bool:
    return all(isinstance(n, String) for n in flatten(schema.node, schema.definitions))


def _may_be_text(schema: Schema) -> bool:
    """May a text that begins as a list or object does stand there?"""
    nodes = list(flatten(schema.node, schema.definitions))
    texts = (v for n in nodes if isinstance(n, Constant) for v in n.values if isinstance(v, str))
    return any(isinstance(n, String | AnyValue) for n in nodes) or any(
        text.startswith(("[", "{")) for text in texts
    )


def _spell(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
