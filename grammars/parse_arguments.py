"""The arguments of a call under way, told piece by piece as the text of one JSON object."""

import json
import re
from collections.abc import Callable
from typing import TypeAlias

from grammars.coerce import coerce
from grammars.errors import CoerceError
from grammars.scan import JsonScanner
from grammars.schema import Json, Schema, String, flatten
from grammars.wire import JsonArguments, JsonCall

Tell: TypeAlias = Callable[[str | None, str], None]
"""Is told the name of a call, then (None, more of its arguments)."""


class JsonCallText:
    """Finds name and arguments in the text of a JSON call that arrives in pieces.

    Args:
        node: how the call is written.
        tell: is told of them; of nothing where the name does not come first.
    """

    def __init__(self, node: JsonCall | JsonArguments, tell: Tell):
        self._tell = tell
        self._head = _compile_head(node) if isinstance(node, JsonCall) else None
        self._text = ""
        self._scanner: JsonScanner | None = JsonScanner()

    def feed(self, piece: str) -> None:
        """Reads on."""
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


def _compile_head(node: JsonCall) -> re.Pattern[str]:
    """What stands before the arguments, up to their brace; the name is the first group."""
    keys = [re.escape(json.dumps(key)) for key in (node.name_key, node.arguments_key)]
    string = r'("(?:[^"\\]|\\.)*")'
    return re.compile(rf"\{{\s*{keys[0]}\s*:\s*{string}\s*,\s*{keys[1]}\s*:\s*(?=\{{)")


class TaggedText:
    """Writes tagged arguments as JSON while they are read: text at once, other values when they
    are complete, and all at the end where the schema admits several objects.

    Args:
        schema: that of the arguments; None for an unknown tool.
        tell: is told of the JSON text.
    """

    def __init__(self, schema: Schema | None, tell: Tell):
        self._schema = schema if schema and len(schema.objects) == 1 else None
        self._tell = tell
        self._before = "{"
        self._told: set[str] = set()
        self._silent = False  # of a repeated argument: the first one counts
        self._member: Schema | None = None
        self._is_text = False
        self._parts: list[str] = []

    def open(self, key: str) -> None:
        """An argument begins."""
        self._parts = []
        if self._schema is None:
            return
        self._silent = key in self._told
        self._told.add(key)
        self._member = self._schema.find_members(key)[0]
        self._is_text = self._member is not None and _is_text(self._member)
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
            return raw if self._member is None else coerce(raw, self._member)
        except CoerceError:
            return raw


def _is_text(schema: Schema) -> bool:
    return all(isinstance(n, String) for n in flatten(schema.node, schema.definitions))


def _spell(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
