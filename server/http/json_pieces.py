"""Reads JSON in pieces, so that other threads can run in between.

The standard library's parser holds the interpreter lock until it is done: a quarter of a second for
30 MB. So a long text is cut at commas between values. Everything between two cuts is parsed as one
list or object. Only values that are longer than a piece are read member by member, and long strings
part by part. Values and errors are the same as for the whole text.

Each window of the text is searched once for cuts on all levels, however deep values are nested.
Only the parts without a cut are searched again.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

PIECE = 1 << 17  # bytes; reading a list of small numbers takes 3 ms
MAX_NUMBER_LENGTH = 1 << 17  # characters
MIN_LOOK = 16  # bytes that are first searched for the end of a string
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
_HALF = re.compile(rb"\\u[dD][89abAB]..", re.DOTALL)  # the first half of a surrogate pair
ReadPiece = Callable[[bytes, int], Any]
"""Reads a short JSON text that begins at this byte of the whole text. Raises an error of the caller
if it is not JSON."""


class NotJsonError(ValueError):
    """The text is not JSON.

    Args:
        reason: what is wrong.
        offset: the byte offset of the mistake.
    """

    def __init__(self, reason: str, offset: int):
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


def read_in_pieces(text: bytes, read: ReadPiece) -> Any:
    """Reads a JSON text. Its depth must fit Python's stack.

    Args:
        text: in UTF-8.
        read: reads texts that are not longer than a piece.

    Raises:
        NotJsonError: it is not JSON; `read` may raise another error instead.
    """
    reader = _PieceReader(text, read)
    value = reader.read_value()
    reader.check_end()
    return value


@dataclass(frozen=True)
class _Cuts:
    """Where a window of the text may be cut: commas and brackets of lists and objects that begin
    before the window or end after it. Values inside the window are read whole.

    Args:
        end: the end of the window, as a byte offset in the text.
        commas: offsets of commas between items.
        brackets: offsets of opening and closing brackets, in order.
        closes: for each bracket, whether it closes.
    """

    end: int
    commas: "np.ndarray"
    brackets: "np.ndarray"
    closes: "np.ndarray"

    def find(self, offset: int) -> tuple[int | None, bool]:
        """Finds the cut after the short items of a list or object.

        Args:
            offset: the offset of the first of these items, in the window.

        Returns:
            the offset of the end of the list or object, and True; or the last comma before a longer
            item (None if there is none), and False.
        """
        number = int(np.searchsorted(self.brackets, offset))
        bracket = self.end
        if number < self.brackets.size:
            bracket = int(self.brackets[number])
            if self.closes[number]:
                return bracket, True
        last = int(np.searchsorted(self.commas, bracket)) - 1
        if last < 0 or self.commas[last] < offset:
            return None, False
        return int(self.commas[last]), False

    def has_bracket(self, offset: int) -> bool:
        """Returns whether a list or object begins or ends after this offset."""
        return bool(self.brackets.size and self.brackets[-1] >= offset)


_NOTHING = np.zeros(0, np.int64)
_NO_CUTS = _Cuts(0, commas=_NOTHING, brackets=_NOTHING, closes=_NOTHING)


class _PieceReader:
    """Reads through the text."""

    def __init__(self, text: bytes, read: ReadPiece):
        self._text = text
        self._read = read
        self._at = 0  # the offset of the next byte
        self._cuts = _NO_CUTS

    def check_end(self) -> None:
        self._skip_space()
        if not self._is_over:
            raise NotJsonError("Extra data", self._at)

    def read_value(self) -> Any:
        """Reads the next value, however long it is."""
        self._skip_space()
        first = self._peek()
        if first == b'"':
            return self._read_text()
        if not first or first not in _OPENS:
            return self._read_scalar()
        value: Any = [] if first == b"[" else {}
        self._at += 1
        follows = False  # after a comma: an item must follow
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
        """Adds the next items to a list or object while they are short. Returns True after its end,
        False before an item that is longer than a piece."""
        while True:
            cut, is_end = self._find_cut()
            if cut is None:
                if self._cuts.end == len(self._text):
                    self._read_items(value, self._text[self._at :], b"", follows=follows)
                if not self._cuts.has_bracket(self._at):
                    self._cuts = _NO_CUTS  # they do not apply inside the item
                return False
            closer = _name_closer(value)
            if is_end:
                closer = self._text[cut : cut + 1]  # perhaps the wrong kind of bracket
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
        """As `_Cuts.find`: in the current window, or else in a new one from here."""
        if self._at < self._cuts.end:
            cut, is_end = self._cuts.find(self._at)
            if cut is not None or self._cuts.has_bracket(self._at):
                return cut, is_end
        self._cuts = _find_cuts(self._text[self._at : self._at + PIECE], self._at)
        return self._cuts.find(self._at)

    def _read_items(self, value: Any, items: bytes, closer: bytes, *, follows: bool) -> Any:
        """Reads the short items between two cuts.

        Args:
            value: the list or object of the items.
            items: the text of the items, without the comma after them; that comma is a mistake if
                there are no items.
            closer: the bracket that ends them; empty: the text ends.
            follows: an item must follow, as in `read_value`.
        """
        opener = b"[" if isinstance(value, list) else b"{"
        is_blank = not items.strip()
        after = self._text[self._at + len(items) : self._at + len(items) + 1]
        if is_blank and (follows or after == b","):
            closer = b","
        return self._read(opener + items + closer, self._at - 1)

    def _ends(self, value: Any) -> bool:
        """Reads the comma, or the end of the value, after an item; returns True at the end."""
        self._skip_space()
        found = self._peek()
        if found not in (b",", _name_closer(value)):
            raise NotJsonError(_ENDS if self._is_over else "Expecting ',' delimiter", self._at)
        self._at += 1
        return found != b","

    def _read_name(self) -> Any:
        """Reads the name of a member and the colon after it."""
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
        found = _SCALAR.match(self._text, self._at, self._at + MAX_NUMBER_LENGTH + 1)
        if found is None:
            raise NotJsonError(_ENDS if self._is_over else "Expecting value", self._at)
        end = found.end()
        if end > self._at + MAX_NUMBER_LENGTH:
            message = f"a number has more than {MAX_NUMBER_LENGTH:,} characters"
            raise NotJsonError(message, self._at)
        value = self._read(self._text[self._at : end], self._at)
        self._at = end
        return value

    def _read_text(self) -> str:
        begin = self._at
        self._at += 1
        parts: list[str] = []
        while True:
            masked, end = self._look_for_quote(PIECE if parts else MIN_LOOK)
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
        """Finds the quote that ends a string.

        Args:
            size: how many bytes are searched first.

        Returns:
            the next part of the string, masked, and the offset of the quote in it; -1: there is
            none. With a quote, the part is not much longer than the string.
        """
        while True:
            size = min(size, PIECE)
            masked = _mask(self._text[self._at : self._at + size])
            end = masked.find(b'"')
            if end >= 0 or size == PIECE:
                return masked, end
            size *= 2

    def _find_whole(self, masked: bytes) -> int:
        """Returns the length of the beginning of a string that cuts no character and no escape.

        Args:
            masked: the string from here on.
        """
        end = len(masked)
        escape = masked.find(b"\\", max(0, end - _ESCAPE + 1))
        if escape >= 0:
            end = escape
        elif self._at + end < len(self._text):
            for _ in range(3):  # continuation bytes of UTF-8
                if self._text[self._at + end] & 0xC0 == 0x80:
                    end -= 1
        if _HALF.match(masked, max(0, end - _ESCAPE), end):
            end -= _ESCAPE
        return end

    @property
    def _is_over(self) -> bool:
        return self._at >= len(self._text)

    def _peek(self) -> bytes:
        """Returns the next byte; empty at the end."""
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
    """Returns the text with the same length, in which escaped backslashes and quotes are
    replaced."""
    if b"\\" in text:
        text = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
    return text


def _find_cuts(window: bytes, begin: int) -> _Cuts:
    """Finds where a window may be cut.

    Args:
        window: begins with an item of a list or object, or with its end.
        begin: its offset in the text.
    """
    codes = np.frombuffer(_mask(window), np.uint8)
    # 8-bit sums overflow, but their parity stays right.
    is_outside = np.cumsum(codes == _QUOTE, dtype=np.uint8) % 2 == 0
    marks = np.where(is_outside, _MARKS[codes], np.int8(0))
    offsets = np.flatnonzero(marks)
    marks = marks[offsets]
    is_comma = marks == _COMMA
    steps = np.where(is_comma, np.int8(0), marks)
    depths = np.concatenate([np.zeros(1, np.int32), np.cumsum(steps, dtype=np.int32)])
    before = np.minimum.accumulate(depths)  # the lowest depth so far
    after = np.minimum.accumulate(depths[::-1])[::-1]  # the lowest depth from here on
    began_before = depths == before
    ends_after = depths == after
    commas = is_comma & (began_before | ends_after)[1:]
    closes = before[1:] < before[:-1]
    opens = (marks == _OPEN) & ends_after[1:]
    brackets = np.flatnonzero(closes | opens)
    return _Cuts(
        begin + len(window),
        commas=begin + offsets[commas],
        brackets=begin + offsets[brackets],
        closes=closes[brackets],
    )
