"""Puts an object whose strings are raw text into JSON while it arrives."""

import json
import re

from grammars.spelling.reading import find_words, read_json
from grammars.wire.format import JsonStyle

_WORD = re.compile(r"[^\s,:{}\[\]]+")
_SIGNS = {"{": "{", "}": "}", "[": "[", "]": "]", ",": ", ", ":": ": "}


class RawTeller:
    """Tells strings as they come, other values when they are complete.

    Args:
        style: how the object is written; its strings have no escapes.
    """

    def __init__(self, style: JsonStyle):
        self._quote = style.quotes[0]
        self._words = find_words(style)
        self._rest = ""  # what is not told yet
        self._quoted = False
        self._open = ""  # brackets, the innermost last
        self._is_key = False  # does one come next?

    def feed(self, piece: str) -> str:
        """The JSON text of as much as is known.

        Raises:
            ValueError: no such object is written so.
        """
        self._rest += piece
        parts: list[str] = []
        while self._rest:
            part = self._string() if self._quoted else self._part()
            if part is None:
                break
            parts.append(part)
        return "".join(parts)

    def _string(self) -> str | None:
        text, end, behind = self._rest.partition(self._quote)
        if end:
            self._quoted, self._rest = False, behind
            return _escape(text) + '"'
        held = next(n for n in range(len(self._quote), -1, -1) if text.endswith(self._quote[:n]))
        text, self._rest = text[: len(text) - held], text[len(text) - held :]
        return _escape(text) or None

    def _part(self) -> str | None:
        """A key, word or sign; None while it is not complete."""
        rest, first = self._rest, self._rest[0]
        if first in _SIGNS:
            self._count(first)
            return self._take(1, _SIGNS[first])
        if first.isspace():
            return self._take(1, "")
        if rest.startswith(self._quote):
            self._quoted = True
            return self._take(len(self._quote), '"')
        if self._quote.startswith(rest):
            return None
        if self._is_key:
            key, end, _ = rest.partition(":")
            return self._take(len(key), f'"{_escape(key.strip())}"') if end else None
        word = _WORD.match(rest)
        if word is None or word.end() == len(rest):
            return None
        return self._take(word.end(), self._read(word.group()))

    def _take(self, count: int, told: str) -> str:
        self._rest = self._rest[count:]
        return told

    def _count(self, sign: str) -> None:
        if sign in "{[":
            self._open += sign
        elif sign in "}]":
            self._open = self._open[:-1]
        self._is_key = sign in "{," and self._open.endswith("{")

    def _read(self, word: str) -> str:
        if word in self._words:
            return self._words[word]
        read_json(word)
        return word


def _escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
