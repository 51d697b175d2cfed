"""Scanners that find the end of an object or list in text that arrives in pieces."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grammars.wire.nodes import JsonStyle


class FaultError(ValueError):
    """A character that JSON does not allow here, with its offset."""

    def __init__(self, text: str, offset: int):
        self.offset = offset
        super().__init__(f"{text[offset]!r} in JSON")


@dataclass(frozen=True)
class Sign:
    """A bracket, comma or colon outside of strings.

    Args:
        text: the character.
        offset: its offset in the piece of text, in characters.
        level: the level of its object or array; the outermost one has level 1.
    """

    text: str
    offset: int
    level: int


class JsonScanner:
    """Finds the end of an object or array by its brackets and quotes.

    Args:
        quotes: the characters that enclose strings.
        levels: how many levels of nesting report their signs.
        bare_keys: keys have no quotes, so all characters may stand outside of strings.

    Attributes:
        signs: the signs in the last piece.
    """

    # In deeper levels, commas and colons are skipped: long lists of numbers are full of them.
    _SHALLOW = re.compile(r"[^\s\w+\-.]")
    _DEEP = re.compile(r"[^\s\w+\-.,:]")
    _INSIDE: Mapping[str, re.Pattern[str]] = {
        quote: re.compile(rf"[{quote}\\]") for quote in ('"', "'")
    }

    def __init__(
        self, quotes: Sequence[str] = ('"',), levels: int = 0, *, bare_keys: bool = False
    ) -> None:
        self._quotes = quotes
        self._bare_keys = bare_keys
        self._levels = levels
        self._level = 0
        self._quoted = ""
        self._escaped = False
        self.signs: list[Sign] = []

    def feed(self, text: str, offset: int) -> int | None:
        """Scans from `offset`; returns the offset after the value, or None if it continues.

        Raises:
            FaultError: a character that JSON does not allow here.
        """
        self.signs = []
        start = offset
        while offset < len(text):
            if self._escaped:
                self._escaped = False
                offset += 1
                continue
            match = self._pattern.search(text, offset)
            if match is None:
                return None
            found, offset = match.group(), match.end()
            if self._quoted:
                self._escaped = found == "\\"
                if not self._escaped:
                    self._quoted = ""
            elif found in self._quotes:
                self._quoted = found
            elif found in "{}[],:":
                if self._count(found, match.start() - start):
                    return offset
            elif not self._bare_keys:
                raise FaultError(text, match.start())
        return None

    @property
    def _pattern(self) -> re.Pattern[str]:
        if self._quoted:
            return self._INSIDE[self._quoted]
        return self._SHALLOW if self._level <= self._levels else self._DEEP

    def _count(self, sign: str, offset: int) -> bool:
        """Notes a sign; returns True if it ends the value."""
        if sign in "{[":
            self._level += 1
        if self._level <= self._levels:
            self.signs.append(Sign(sign, offset, self._level))
        if sign in "}]":
            self._level -= 1
            return self._level == 0
        return False


class RawScanner:
    """Finds the end of an object or array whose strings are raw text up to a quote.

    Args:
        quote: the quote that encloses strings.
    """

    signs: Sequence[Sign] = ()  # it reports none

    def __init__(self, quote: str) -> None:
        self._quote = quote
        self._level = 0
        self._quoted = False
        self._half = ""  # the first part of a quote

    def feed(self, text: str, offset: int) -> int | None:
        """Scans from `offset`; returns the offset after the value, or None if it continues."""
        for i in range(offset, len(text)):
            self._half += text[i]
            while not self._quote.startswith(self._half):
                self._half = self._half[1:]
            if self._half == self._quote:
                self._quoted = not self._quoted
                self._half = ""
            elif not self._quoted and text[i] in "{}[]" and not self._half:
                self._level += 1 if text[i] in "{[" else -1
                if self._level == 0:
                    return i + 1
        return None


Scanner: TypeAlias = JsonScanner | RawScanner


def make_scanner(style: JsonStyle, levels: int = 0) -> Scanner:
    """Makes a scanner that finds the end of an object or array in this style.

    Args:
        levels: how many levels of nesting report their signs, if strings have escapes.
    """
    if style.escapes:
        return JsonScanner(style.quotes, levels, bare_keys=style.bare_keys)
    return RawScanner(style.quotes[0])
