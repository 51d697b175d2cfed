"""Measures a JSON text before it is read: how many values it has, and how deeply they are nested.

Reading a list of small values takes a hundred times the memory of its text, and the standard
library's parser holds the interpreter lock until it is done. So the text is measured first: in
pieces, by numpy, which releases the lock.
"""

import json
from dataclasses import dataclass

import numpy as np

PIECE = 1 << 20  # bytes
_QUOTE = ord('"')
_OPENS, _CLOSES, _SEPARATES = 1, -1, 2
_KINDS = np.zeros(256, np.int8)
_KINDS[list(b"[{")] = _OPENS
_KINDS[list(b"]}")] = _CLOSES
_KINDS[ord(",")] = _SEPARATES


@dataclass(frozen=True)
class Excess:
    """A limit that a JSON text exceeds, and where.

    Args:
        is_depth: values are nested too deeply; False: there are too many values.
        offset: the byte offset at which the limit is exceeded.
        field: the member of the outermost object that contains the offset; "": none.
    """

    is_depth: bool
    offset: int
    field: str


def find_excess(text: bytes, *, max_values: int, max_depth: int) -> Excess | None:
    """Finds the first limit that a JSON text exceeds; None: none.

    A text that is not JSON is measured like JSON, also after the mistake.

    Args:
        text: in UTF-8.
        max_values: the limit for objects, lists, strings, numbers and so on; names of members do
            not count.
        max_depth: the limit for nested objects and lists.
    """
    opened = _count(text, b"[") + _count(text, b"{")  # also counts brackets in strings
    if opened <= max_depth and opened + _count(text, b",") < max_values:
        return None
    return _Measurement(text, max_values, max_depth).find()


def _count(text: bytes, byte: bytes) -> int:
    """Counts a byte; in pieces, so that other threads can run in between."""
    return sum(text.count(byte, begin, begin + PIECE) for begin in range(0, len(text), PIECE))


class _Measurement:
    """Measures the text, piece by piece."""

    def __init__(self, text: bytes, max_values: int, max_depth: int):
        self._text = text
        self._max_values = max_values
        self._max_depth = max_depth
        self._quotes = 0
        self._depth = 0
        self._values = 1
        self._member = 0  # offset of the last member of the outermost object

    def find(self) -> Excess | None:
        begin = 0
        while begin < len(self._text):
            end = self._find_end(begin)
            excess = self._measure(begin, end)
            if excess is not None:
                return excess
            begin = end
        return None

    def _find_end(self, begin: int) -> int:
        """Returns the end of a piece, which does not cut an escape."""
        end = begin + PIECE
        piece = self._text[begin:end]
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        return end + backslashes % 2

    def _measure(self, begin: int, end: int) -> Excess | None:
        piece = self._text[begin:end]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        codes = np.frombuffer(piece, np.uint8)
        # 8-bit sums overflow, but their parity stays right.
        quotes = np.cumsum(codes == _QUOTE, dtype=np.uint8) + np.uint8(self._quotes)
        kinds = _KINDS[codes]
        offsets = np.flatnonzero((kinds != 0) & (quotes % 2 == 0))
        self._quotes = int(quotes[-1]) % 2
        if not offsets.size:
            return None
        marks = kinds[offsets]
        depths = self._depth + np.cumsum(np.where(marks == _SEPARATES, 0, marks), dtype=np.int64)
        # There is a value after each comma and in each list or object (unless it is empty).
        values = self._values + np.cumsum(marks != _CLOSES, dtype=np.int64)
        for is_depth, is_over in (
            (True, depths > self._max_depth),
            (False, values > self._max_values),
        ):
            if is_over.any():
                first = int(is_over.argmax())
                self._note_member(begin + offsets[: first + 1], marks, depths)
                return Excess(is_depth, begin + int(offsets[first]), self._read_member())
        self._note_member(begin + offsets, marks, depths)
        self._depth = int(depths[-1])
        self._values = int(values[-1])
        return None

    def _note_member(
        self, offsets: "np.ndarray", marks: "np.ndarray", depths: "np.ndarray"
    ) -> None:
        count = len(offsets)
        members = np.flatnonzero((marks[:count] != _CLOSES) & (depths[:count] == 1))
        if members.size:
            self._member = int(offsets[members[-1]]) + 1

    def _read_member(self) -> str:
        begin = self._member
        text = self._text[begin : begin + 200].decode("utf-8", "replace").lstrip()
        try:
            name, _ = json.JSONDecoder().raw_decode(text)
        except ValueError:
            return ""
        return name if isinstance(name, str) else ""
