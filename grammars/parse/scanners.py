"""Scanners that find where a value ends in text that arrives in pieces."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from grammars.wire.format import JsonStyle


class FaultError(ValueError):
    """A character that JSON does not have there, and where it is."""

    def __init__(self, text: str, at: int):
        self.at = at
        super().__init__(f"{text[at]!r} in JSON")


class JsonScanner:
    """Finds the end of an object or array by its brackets and quotes.

    Args:
        quotes: the characters that stand around strings.
    """

    _OUTSIDE = re.compile(r"""["'{}\[\]]|[^\s\w+\-.,:]""")
    _INSIDE: Mapping[str, re.Pattern[str]] = {
        quote: re.compile(rf"[{quote}\\]") for quote in ('"', "'")
    }

    def __init__(self, quotes: Sequence[str] = ('"',)) -> None:
        self._quotes = quotes
        self._depth = 0
        self._quoted = ""
        self._escaped = False

    def feed(self, text: str, at: int) -> int | None:
        """Scans on from `at`; the index behind the value, or None if it goes on.

        Raises:
            FaultError: a character that JSON does not have there.
        """
        while at < len(text):
            if self._escaped:
                self._escaped, at = False, at + 1
                continue
            match = self._pattern.search(text, at)
            if match is None:
                return None
            if not self._quoted and match.group() not in (*self._quotes, *"{}[]"):
                raise FaultError(text, match.start())
            at = match.end()
            if self._step(match.group()):
                return at
        return None

    @property
    def _pattern(self) -> re.Pattern[str]:
        return self._INSIDE[self._quoted] if self._quoted else self._OUTSIDE

    def _step(self, character: str) -> bool:
        """Counts a bracket or quote; True at the end of the value."""
        match character:
            case "\\" if self._quoted:
                self._escaped = True
            case _ if self._quoted:
                self._quoted = ""
            case c if c in self._quotes:
                self._quoted = c
            case "{" | "[":
                self._depth += 1
            case "}" | "]":
                self._depth -= 1
                return self._depth == 0
            case _:
                pass
        return False


class RawScanner:
    """Finds the end of an object or array whose strings are raw text up to a quote.

    Args:
        quote: what stands around a string.
    """

    def __init__(self, quote: str) -> None:
        self._quote = quote
        self._depth = 0
        self._quoted = False
        self._half = ""  # of a quote

    def feed(self, text: str, at: int) -> int | None:
        """Scans on from `at`; the index behind the value, or None if it goes on."""
        for i in range(at, len(text)):
            self._half += text[i]
            while not self._quote.startswith(self._half):
                self._half = self._half[1:]
            if self._half == self._quote:
                self._quoted, self._half = not self._quoted, ""
            elif not self._quoted and text[i] in "{}[]" and not self._half:
                self._depth += 1 if text[i] in "{[" else -1
                if self._depth == 0:
                    return i + 1
        return None


Scanner: TypeAlias = JsonScanner | RawScanner


def make_scanner(style: JsonStyle) -> Scanner:
    """What finds the end of an object in this style."""
    return JsonScanner(style.quotes) if style.escapes else RawScanner(style.quotes[0])
