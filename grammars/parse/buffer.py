"""The push buffer of the parser."""

import re
from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

from grammars.parse.scanners import FaultError, make_scanner
from grammars.spelling.python import Ends
from grammars.wire.format import JsonStyle

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""A computation that yields whenever it needs more text, and returns a T."""


class CutError(Exception):
    """The text ended where more was needed."""


class NotACallError(Exception):
    """What looked like a call is none."""


class Buffer:
    """Text that arrives in pieces. What was taken since `mark()` can be given back."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._pushed = 0
        self._taken: list[str] | None = None
        self.closed = False

    def push(self, text: str) -> None:
        """Appends a piece."""
        self._text = self._text[self._at :] + text
        self._at = 0
        self._pushed += len(text)

    def mark(self) -> None:
        """From here on, remember what is taken."""
        self._taken = []

    def forget(self) -> str:
        """Ends `mark()`; returns what was taken since."""
        taken, self._taken = "".join(self._taken or ()), None
        return taken

    def unread(self, text: str) -> None:
        """Puts text back in front."""
        self._text, self._at = text + self._text[self._at :], 0

    def take(self, count: int) -> str:
        """Removes and returns the next characters (fewer if fewer are there)."""
        text = self._text[self._at : self._at + count]
        self._at += len(text)
        if self._taken is not None:
            self._taken.append(text)
        return text

    def drain(self) -> str:
        """Takes all that is there."""
        return self.take(len(self._text) - self._at)

    @property
    def position(self) -> int:
        """How many characters of what has arrived are taken."""
        return max(0, self._pushed - (len(self._text) - self._at))

    @property
    def rest(self) -> str:
        """What is there, and was not taken."""
        return self._text[self._at :]

    def need(self, count: int = 1) -> Steps[str]:
        """The next characters, without taking them; `CutError` if the text ends before."""
        while len(self._text) - self._at < count:
            if self.closed:
                raise CutError
            yield
        return self._text[self._at : self._at + count]

    def space(self) -> Steps[str]:
        """Takes white space, as much as there is."""
        taken = ""
        while (yield from self.need()).isspace():
            taken += self.take(1)
        return taken

    def skip(self, pad: str) -> Steps[None]:
        """Takes as much of `pad` as comes next."""
        for character in pad:
            try:
                if (yield from self.need()) != character:
                    return
            except CutError:
                return
            self.take(1)

    def literal(self, *options: str) -> Steps[str]:
        """Takes the one of these texts that comes next; `NotACallError` if none does."""
        for option in options:
            count = 0
            while count < len(option) and option.startswith((yield from self.need(count + 1))):
                count += 1
            if count == len(option):
                return self.take(count)
        raise NotACallError

    def sees(self, text: str) -> Steps[bool]:
        """Does `text` come next, behind at most 8 characters of white space? Takes nothing."""
        space = 0
        while space < 8 and (yield from self.need(space + 1))[space].isspace():
            space += 1
        for i, character in enumerate(text, space):
            if (yield from self.need(i + 1))[i] != character:
                return False
        return True

    def until(self, stops: Sequence[str], sink: Callable[[str], None]) -> Steps[str | None]:
        """Hands text to `sink` up to the first of `stops`, and takes that stop.

        Returns:
            the stop, or None where the text ends without one; what may be the beginning of one is
            left then.
        """
        pattern = compile_stops(tuple(stops))
        while True:
            match = pattern.search(self._text, self._at) if stops else None
            if match and (self.closed or not self._grows(match.start(), stops)):
                sink(self.take(match.start() - self._at))
                return self.take(len(match.group()))
            start = match.start() if match else self._at
            held = _held(self._text, start, stops)
            sink(self.take(len(self._text) - self._at - held))
            if self.closed:
                return None
            yield

    def _grows(self, start: int, stops: Sequence[str]) -> bool:
        """Is the rest of the text the beginning of a stop, perhaps of one longer than was found?"""
        count = len(self._text) - start
        return any(len(s) > count and self._text.endswith(s[:count]) for s in stops)

    def string(self, ends: Ends, quote: str, sink: Callable[[str], None]) -> Steps[None]:
        """Hands a raw string to `sink`, up to the quote that ends it, and takes that."""
        while True:
            end, is_whole = ends.find(self._text, self._at, quote)
            sink(self.take(end - self._at))
            if is_whole:
                self.take(len(quote))
                return
            if self.closed:
                raise CutError
            yield

    def json(self, sink: Callable[[str], None], style: JsonStyle | None = None) -> Steps[str]:
        """Takes one object or array in this style; `sink` is told of it piece by piece.

        Raises:
            FaultError: it cannot be one.
        """
        scanner, parts = make_scanner(style or JsonStyle()), list[str]()
        while True:
            yield from self.need()
            try:
                end = scanner.feed(self._text, self._at)
            except FaultError as e:
                sink(self.take(e.at - self._at))  # whatever the chunks: all in front of it
                raise
            parts.append(self.take((len(self._text) if end is None else end) - self._at))
            sink(parts[-1])
            if end is not None:
                return "".join(parts)


_PATTERNS: dict[tuple[str, ...], re.Pattern[str]] = {}


def compile_stops(stops: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for all stops, the longest first."""
    if stops not in _PATTERNS:
        longest_first = sorted(stops, key=len, reverse=True)
        _PATTERNS[stops] = re.compile("|".join(map(re.escape, longest_first)))
    return _PATTERNS[stops]


def _held(text: str, start: int, stops: Sequence[str]) -> int:
    """How many characters at the end may be the beginning of a stop."""
    longest = min(max(map(len, stops), default=1) - 1, len(text) - start)
    for count in range(longest, 0, -1):
        tail = text[len(text) - count :]
        if any(stop.startswith(tail) for stop in stops):
            return count
    return 0
