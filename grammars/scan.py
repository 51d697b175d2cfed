"""The push buffer of the parser, and the scanner that finds where a JSON value ends."""

import re
from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

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
        self._taken: list[str] | None = None
        self.closed = False

    def push(self, text: str) -> None:
        """Appends a piece."""
        self._text = self._text[self._at :] + text
        self._at = 0

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

    def drain(self) -> None:
        """Takes all that is there."""
        self.take(len(self._text) - self._at)

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
            the stop, or None where the text ends without one.
        """
        pattern = compile_stops(tuple(stops))
        while True:
            match = pattern.search(self._text, self._at) if stops else None
            if match:
                sink(self.take(match.start() - self._at))
                return self.take(len(match.group()))
            held = 0 if self.closed else _held(self._text, self._at, stops)
            sink(self.take(len(self._text) - self._at - held))
            if self.closed:
                return None
            yield

    def json(self, sink: Callable[[str], None]) -> Steps[str]:
        """Takes one JSON object or array; `sink` is told of it piece by piece.

        Raises:
            ValueError: it cannot be one.
        """
        scanner, parts = JsonScanner(), list[str]()
        while True:
            yield from self.need()
            end = scanner.feed(self._text, self._at)
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


class JsonScanner:
    """Finds the end of a JSON object or array by its brackets and quotes."""

    _OUTSIDE = re.compile(r'["{}\[\]]|[^\s\w+\-.,:]')
    _INSIDE = re.compile(r'["\\]')

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def feed(self, text: str, at: int) -> int | None:
        """Scans on from `at`; the index behind the value, or None if it goes on.

        Raises:
            ValueError: a character that JSON does not have there.
        """
        while at < len(text):
            if self._escaped:
                self._escaped, at = False, at + 1
                continue
            match = (self._INSIDE if self._quoted else self._OUTSIDE).search(text, at)
            if match is None:
                return None
            at = match.end()
            if self._step(match.group()):
                return at
        return None

    def _step(self, character: str) -> bool:
        """Counts a bracket or quote; True at the end of the value."""
        match character:
            case '"':
                self._quoted = not self._quoted
            case "\\" if self._quoted:
                self._escaped = True
            case "{" | "[":
                self._depth += 1
            case "}" | "]":
                self._depth -= 1
                return self._depth == 0
            case _:
                raise ValueError(f"{character!r} in JSON")
        return False
