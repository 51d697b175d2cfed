"""Writes, measures and hashes long JSON data in pieces.

One call of the standard library for a value of 30 MB takes a tenth of a second, during which no
other thread runs. Between two pieces, other threads run.
"""

import hashlib
import json
import marshal
from typing import Any, TypeAlias, cast

PIECE = 1 << 16  # characters that one call writes
Members: TypeAlias = dict[Any, Any]
Items: TypeAlias = list[Any] | tuple[Any, ...]
MARSHAL = 2  # the last version in which equal values have equal bytes


def measure_json(value: Any, max_length: int) -> int:
    """Returns roughly how many characters a value has as JSON, without escapes; if there are more
    than `max_length`, any number above that."""
    size = 0
    waiting = [value]
    while waiting and size <= max_length:
        part: Any = waiting.pop()
        if isinstance(part, str):
            size += len(part) + 2
        elif isinstance(part, dict):
            members = cast(Members, part)
            size += 2
            for name in members:
                size += len(str(name)) + 6
            waiting.extend(members.values())
        elif isinstance(part, (list, tuple)):
            items = cast(Items, part)
            size += 2 * len(items) + 2
            waiting.extend(items)
        else:
            size += 4
    return size


def write_pieces(value: Any, *, ensure_ascii: bool = False) -> list[str]:
    """Returns the JSON of a value in pieces, as `json.dumps` writes it. Values of other types are
    written as their `str`.

    Args:
        value: JSON data. The keys must be text.
        ensure_ascii: escape all characters except ASCII.

    Raises:
        RecursionError: it is nested too deeply.
    """
    writer = _PieceWriter(ensure_ascii)
    writer.measure(value)
    writer.write(value)
    return writer.pieces


def write_json(value: Any) -> str:
    """Returns the JSON of a value as one text; see `write_pieces`."""
    return "".join(write_pieces(value))


class _PieceWriter:
    """Writes a value after measuring it once. To measure it at each level would multiply the time
    by its depth, and so would returning pieces from level to level.

    Attributes:
        pieces: the written text.
    """

    def __init__(self, ensure_ascii: bool):
        self._encode = json.JSONEncoder(ensure_ascii=ensure_ascii, default=str).encode
        # For each list or object that is longer than a piece, by identity: after which items it may
        # be cut.
        self._cuts: dict[int, list[int]] = {}
        self.pieces: list[str] = []

    def measure(self, value: Any) -> int:
        """Like `measure_json`, without a limit. Notes long lists and objects, and where to cut
        them."""
        size, cuts, identity = 4, _PieceCuts(), id(value)
        if isinstance(value, str):
            size = len(value) + 2
        elif isinstance(value, dict):
            size = 2
            for name, item in cast(Members, value).items():
                size += cuts.add(len(str(name)) + 6 + self.measure(item))
        elif isinstance(value, (list, tuple)):
            size = 2
            for item in cast(Items, value):
                size += cuts.add(2 + self.measure(item))
        if size > PIECE:
            self._cuts[identity] = cuts.list_all()
        return size

    def write(self, value: Any) -> None:
        """Adds the pieces of a value."""
        cuts = self._cuts.get(id(value))
        if cuts is None:
            self.pieces.append(self._encode(value))
        elif isinstance(value, str):
            self._write_text(value)
        elif isinstance(value, dict):
            members = [*cast(Members, value).items()]
            begin, opener = 0, "{"
            for cut in cuts:
                self.pieces.append(opener)
                name, item = members[begin]
                if cut > begin + 1:
                    self.pieces.append(self._encode(dict(members[begin:cut]))[1:-1])
                else:
                    self._write_text(str(name))
                    self.pieces.append(": ")
                    self.write(item)
                begin, opener = cut, ", "
            self.pieces.append("}")
        else:
            items = cast(Items, value)
            begin, opener = 0, "["
            for cut in cuts:
                self.pieces.append(opener)
                if cut > begin + 1:
                    self.pieces.append(self._encode(items[begin:cut])[1:-1])
                else:
                    self.write(items[begin])
                begin, opener = cut, ", "
            self.pieces.append("]")

    def _write_text(self, text: str) -> None:
        self.pieces.append('"')
        for begin in range(0, len(text), PIECE):
            self.pieces.append(self._encode(text[begin : begin + PIECE])[1:-1])
        self.pieces.append('"')


class _PieceCuts:
    """Cuts a list or an object into pieces: short items are joined, a long item is separate."""

    def __init__(self) -> None:
        self._cuts: list[int] = []  # the number of items before each cut
        self._count = 0
        self._size = 0  # characters after the last cut

    def add(self, size: int) -> int:
        """Adds an item with this number of characters; returns the number."""
        if self._size and self._size + size > PIECE:
            self._cuts.append(self._count)
            self._size = 0
        self._count += 1
        self._size += size
        return size

    def list_all(self) -> list[int]:
        """Returns the numbers of items before each cut; the last one is the number of all items."""
        return [*self._cuts, self._count] if self._count else []


def pack_json(value: Any) -> bytes | None:
    """Returns JSON data as bytes in Python's `marshal` format, for the keys of caches: five times
    as fast as JSON. None for other types, and for data that is nested too deeply."""
    try:
        return marshal.dumps(value, MARSHAL)
    except ValueError:
        return None


def pack_key(value: Any) -> bytes | None:
    """Like `pack_json`, with hashes in place of long texts: for keys that are not read again."""
    try:
        if measure_json(value, PIECE) > PIECE:
            value = _abridge(value)
    except RecursionError:
        return None
    return pack_json(value)


def _abridge(value: Any) -> Any:
    """Returns the value with long texts replaced by hashes."""
    if isinstance(value, str) and len(value) > PIECE:
        digest = hashlib.blake2b(digest_size=32)
        for begin in range(0, len(value), PIECE):
            digest.update(value[begin : begin + PIECE].encode(errors="surrogatepass"))
        return digest.digest()  # bytes cannot be mistaken for JSON data
    if isinstance(value, dict):
        members = cast(Members, value)
        return {_abridge(name): _abridge(item) for name, item in members.items()}
    if isinstance(value, (list, tuple)):
        return [_abridge(item) for item in cast(Items, value)]
    return value
