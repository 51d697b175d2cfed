"""JSON read in pieces, so that other threads run in between.

The reader of the standard library lets no other thread run until it is done: a quarter of a second
for 30 MB. So a long text is cut at commas between values. What stands between two cuts is a list,
or an object, for that reader; only a value that no piece has the whole of is entered, and a text
that is longer is read part by part. Values and mistakes are the same as those of the whole.

Each stretch is looked through once for cuts, those of all levels, however deep values are nested;
again only what nothing was found in.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

PIECE = 1 << 17  # bytes; a list of small numbers is read in 3 ms
LONGEST_NUMBER = 1 << 17  # characters
LEAST_LOOK = 16  # bytes in which the end of a text is looked for first
_OPENS, _CLOSES = b"[{", b"]}"
_QUOTE = ord('"')
_OPEN, _CLOSE, _COMMA = 1, -1, 2
_MARKS = np.zeros(256, np.int8)
_MARKS[list(_OPENS)] = _OPEN
_MARKS[list(_CLOSES)] = _CLOSE
_MARKS[ord(",")] = _COMMA
_SPACE = re.compile(rb"[ \t\n\r]*+")
_SCALAR = re.compile(
    rb"true|false|null|NaN|-?Infinity|-?[0-9]++(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
)
_ENDS = "it ends too early"
_ESCAPE = 6  # bytes of the longest escape
_HALF = re.compile(rb"\\u[dD][89abAB]..", re.DOTALL)  # the first half of a character
ReadPiece = Callable[[bytes, int], Any]
"""Reads a short JSON text whose first byte is this one of the whole. Raises an error of the caller
where it is no JSON."""


class NotJsonError(ValueError):
    """A text that is no JSON.

    Args:
        reason: what is wrong.
        offset: the byte at which that is.
    """

    def __init__(self, reason: str, offset: int):
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


def read_in_pieces(text: bytes, read: ReadPiece) -> Any:
    """The value of a JSON text, which is nested no deeper than Python's stack.

    Args:
        text: in UTF-8.
        read: reads what is no longer than a piece.

    Raises:
        NotJsonError: it is no JSON; or what `read` raises then.
    """
    reader = _PieceReader(text, read)
    value = reader.read_value()
    reader.check_end()
    return value


@dataclass(frozen=True)
class _Cuts:
    """Where a stretch of the text may be cut: the marks of the lists and objects that begin in
    front of it or end behind it. Those in between are read whole.

    Args:
        end: of the stretch, in bytes of the text.
        commas: between items.
        brackets: the beginnings and ends, in order.
        closes: for each bracket, whether it is an end.
    """

    end: int
    commas: "np.ndarray"
    brackets: "np.ndarray"
    closes: "np.ndarray"

    def find(self, at: int) -> tuple[int | None, bool]:
        """Where to cut behind the short items of a list or an object: at its end, and True; or in
        front of a longer one at a comma, which is None where there is none.

        Args:
            at: the first of these items begins here, in the stretch.
        """
        number = int(np.searchsorted(self.brackets, at))
        bracket = self.end
        if number < self.brackets.size:
            bracket = int(self.brackets[number])
            if self.closes[number]:
                return bracket, True
        last = int(np.searchsorted(self.commas, bracket)) - 1
        if last < 0 or self.commas[last] < at:
            return None, False
        return int(self.commas[last]), False

    def has_bracket(self, at: int) -> bool:
        """True if a list or an object begins or ends behind this byte."""
        return bool(self.brackets.size and self.brackets[-1] >= at)


_NOTHING = np.zeros(0, np.int64)
_NO_CUTS = _Cuts(0, commas=_NOTHING, brackets=_NOTHING, closes=_NOTHING)


class _PieceReader:
    """A walk through the text."""

    def __init__(self, text: bytes, read: ReadPiece):
        self._text = text
        self._read = read
        self._at = 0  # the byte that is read next
        self._cuts = _NO_CUTS

    def check_end(self) -> None:
        self._skip_space()
        if not self._is_over:
            raise NotJsonError("Extra data", self._at)

    def read_value(self) -> Any:
        """The next value, however long it is."""
        self._skip_space()
        first = self._peek()
        if first == b'"':
            return self._read_text()
        if not first or first not in _OPENS:
            return self._read_scalar()
        value: Any = [] if first == b"[" else {}
        self._at += 1
        follows = False  # a comma stands in front: an item has to come
        while not self._fill(value, follows=follows):
            if isinstance(value, list):
                value.append(self.read_value())
            else:
                name = self._read_name()
                value[name] = self.read_value()
            if self._ends(value):
                break
            follows = True
        return value

    def _fill(self, value: Any, *, follows: bool) -> bool:
        """Adds the next items to a list or an object, as long as they are short; true behind its
        end, false in front of an item that is longer than a piece."""
        while True:
            cut, is_end = self._find_cut()
            if cut is None:
                if self._cuts.end == len(self._text):
                    self._read_items(value, self._text[self._at :], b"", follows=follows)
                if not self._cuts.has_bracket(self._at):
                    self._cuts = _NO_CUTS  # of no use in the item, which may be entered
                return False
            closer = _name_closer(value)
            if is_end:
                closer = self._text[cut : cut + 1]  # which may be the wrong one
            short = self._text[self._at : cut]
            items = self._read_items(value, short, closer, follows=follows)
            if isinstance(value, list):
                value.extend(items)
            else:
                value.update(items)
            self._at = cut + 1
            if is_end:
                return True
            follows = True

    def _find_cut(self) -> tuple[int | None, bool]:
        """See `_Cuts.find`: in the stretch that is looked through already, or else from here on."""
        if self._at < self._cuts.end:
            cut, is_end = self._cuts.find(self._at)
            if cut is not None or self._cuts.has_bracket(self._at):
                return cut, is_end
        self._cuts = _find_cuts(self._text[self._at : self._at + PIECE], self._at)
        return self._cuts.find(self._at)

    def _read_items(self, value: Any, items: bytes, closer: bytes, *, follows: bool) -> Any:
        """The short items between two cuts.

        Args:
            value: that they are items of.
            items: without the comma behind them, which is a mistake where there are none.
            closer: what ends them; empty: the text does.
            follows: see `read_value`.
        """
        opener = b"[" if isinstance(value, list) else b"{"
        is_blank = not items.strip()
        behind = self._text[self._at + len(items) : self._at + len(items) + 1]
        if is_blank and (follows or behind == b","):
            closer = b","
        return self._read(opener + items + closer, self._at - 1)

    def _ends(self, value: Any) -> bool:
        """Goes behind the comma, or the end of the value, that has to follow an item; true if it is
        the end."""
        self._skip_space()
        found = self._peek()
        if found not in (b",", _name_closer(value)):
            raise NotJsonError(_ENDS if self._is_over else "Expecting ',' delimiter", self._at)
        self._at += 1
        return found != b","

    def _read_name(self) -> Any:
        """The name of a member, and the colon behind it."""
        self._skip_space()
        if self._peek() != b'"':
            reason = "Expecting property name enclosed in double quotes"
            raise NotJsonError(_ENDS if self._is_over else reason, self._at)
        name = self._read_text()
        self._skip_space()
        if self._peek() != b":":
            raise NotJsonError(_ENDS if self._is_over else "Expecting ':' delimiter", self._at)
        self._at += 1
        return name

    def _read_scalar(self) -> Any:
        found = _SCALAR.match(self._text, self._at, self._at + LONGEST_NUMBER + 1)
        if found is None:
            raise NotJsonError(_ENDS if self._is_over else "Expecting value", self._at)
        end = found.end()
        if end > self._at + LONGEST_NUMBER:
            message = f"a number has more than {LONGEST_NUMBER:,} characters"
            raise NotJsonError(message, self._at)
        value = self._read(self._text[self._at : end], self._at)
        self._at = end
        return value

    def _read_text(self) -> str:
        begin = self._at
        self._at += 1
        parts: list[str] = []
        while True:
            masked, end = self._look_for_quote(PIECE if parts else LEAST_LOOK)
            cut = end
            if end < 0:
                cut = self._find_whole(masked)
            if end < 0 and cut == 0:
                raise NotJsonError("Unterminated string starting at", begin)
            part = self._text[self._at : self._at + cut]
            parts.append(self._read(b'"%b"' % part, self._at - 1))
            self._at += cut
            if end >= 0:
                self._at += 1
                return "".join(parts)

    def _look_for_quote(self, size: int) -> tuple[bytes, int]:
        """The next piece of a text, masked, and the quote in it that ends the text; -1: there is
        none. Where there is one, the piece is not much longer than the text.

        Args:
            size: bytes that are looked through first.
        """
        while True:
            size = min(size, PIECE)
            masked = _mask(self._text[self._at : self._at + size])
            end = masked.find(b'"')
            if end >= 0 or size == PIECE:
                return masked, end
            size *= 2

    def _find_whole(self, masked: bytes) -> int:
        """The length of the part of a text in which no character and no escape is cut.

        Args:
            masked: the text from here on.
        """
        end = len(masked)
        escape = masked.find(b"\\", max(0, end - _ESCAPE + 1))
        if escape >= 0:
            end = escape
        elif self._at + end < len(self._text):
            for _ in range(3):  # bytes that continue a character
                if self._text[self._at + end] & 0xC0 == 0x80:
                    end -= 1
        if _HALF.match(masked, max(0, end - _ESCAPE), end):
            end -= _ESCAPE
        return end

    @property
    def _is_over(self) -> bool:
        return self._at >= len(self._text)

    def _peek(self) -> bytes:
        """The next byte; empty at the end."""
        return self._text[self._at : self._at + 1]

    def _skip_space(self) -> None:
        while True:
            found = _SPACE.match(self._text, self._at, self._at + PIECE)
            end = found.end() if found else self._at
            is_over = end < self._at + PIECE
            self._at = end
            if is_over:
                return


def _name_closer(value: Any) -> bytes:
    return b"]" if isinstance(value, list) else b"}"


def _mask(text: bytes) -> bytes:
    """A part of the text, as long, without backslashes and quotes that are characters."""
    if b"\\" in text:
        text = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
    return text


def _find_cuts(window: bytes, begin: int) -> _Cuts:
    """Where a stretch may be cut.

    Args:
        window: begins with an item of a list or an object, or with its end.
        begin: its place in the text.
    """
    codes = np.frombuffer(_mask(window), np.uint8)
    # Sums of 8 bits run over, which leaves them even or odd.
    is_outside = np.cumsum(codes == _QUOTE, dtype=np.uint8) % 2 == 0
    marks = np.where(is_outside, _MARKS[codes], np.int8(0))
    places = np.flatnonzero(marks)
    marks = marks[places]
    is_comma = marks == _COMMA
    steps = np.where(is_comma, np.int8(0), marks)
    depths = np.concatenate([np.zeros(1, np.int32), np.cumsum(steps, dtype=np.int32)])
    before = np.minimum.accumulate(depths)  # how far down it went
    behind = np.minimum.accumulate(depths[::-1])[::-1]  # how far down it goes from here on
    began_before = depths == before
    ends_behind = depths == behind
    commas = is_comma & (began_before | ends_behind)[1:]
    closes = before[1:] < before[:-1]
    opens = (marks == _OPEN) & ends_behind[1:]
    brackets = np.flatnonzero(closes | opens)
    return _Cuts(
        begin + len(window),
        commas=begin + places[commas],
        brackets=begin + places[brackets],
        closes=closes[brackets],
    )
