"""JSON data that may be long: written, measured and named in pieces.

What the standard library does with a value of 30 MB takes a tenth of a second, and no other thread
runs until it is done. Between two pieces, others do.
"""

import hashlib
import json
import marshal
from typing import Any, TypeAlias, cast

PIECE = 1 << 16  # characters that are written by one call
Members: TypeAlias = dict[Any, Any]
Items: TypeAlias = list[Any] | tuple[Any, ...]
MARSHAL = 2  # the last version that writes equal values equally


def measure_json(value: Any, most: int) -> int:
    """The characters of a value as JSON, without escapes and about; where they are more than
    `most`, any number above that."""
    size = 0
    waiting = [value]
    while waiting and size <= most:
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
    """The JSON of a value, as `json.dumps` writes it, in pieces; what is no JSON as its `str`.

    Args:
        ensure_ascii: escapes what is not ASCII.

    Raises:
        RecursionError: it is nested too deeply.
    """
    writer = _PieceWriter(ensure_ascii)
    writer.measure(value)
    writer.write(value)
    return writer.pieces


def write_json(value: Any) -> str:
    """The JSON of a value as one text; see `write_pieces`."""
    return "".join(write_pieces(value))


class _PieceWriter:
    """Writes a value that was measured: once, since one look for each level would take as many
    times as long as it is deep. So would pieces that are handed up from level to level.

    Attributes:
        pieces: what is written.
    """

    def __init__(self, ensure_ascii: bool):
        self._encode = json.JSONEncoder(ensure_ascii=ensure_ascii, default=str).encode
        self._long = set[int]()  # the identities of what is longer than a piece
        self.pieces: list[str] = []

    def measure(self, value: Any) -> int:
        """As `measure_json`, without a bound; notes what is long."""
        size, identity = 4, id(value)
        if isinstance(value, str):
            size = len(value) + 2
        elif isinstance(value, dict):
            members = cast(Members, value)
            size = 2
            for name, item in members.items():
                size += len(str(name)) + 6 + self.measure(item)
        elif isinstance(value, (list, tuple)):
            items = cast(Items, value)
            size = 2 + 2 * len(items)
            for item in items:
                size += self.measure(item)
        if size > PIECE:
            self._long.add(identity)
        return size

    def write(self, value: Any) -> None:
        """Adds the pieces of a value."""
        if id(value) not in self._long:
            self.pieces.append(self._encode(value))
            return
        comma = ""
        if isinstance(value, str):
            self._write_text(value)
        elif isinstance(value, dict):
            self.pieces.append("{")
            for name, item in cast(Members, value).items():
                self.pieces.append(comma)
                self._write_text(str(name))
                self.pieces.append(": ")
                self.write(item)
                comma = ", "
            self.pieces.append("}")
        else:
            self.pieces.append("[")
            for item in cast(Items, value):
                self.pieces.append(comma)
                self.write(item)
                comma = ", "
            self.pieces.append("]")

    def _write_text(self, text: str) -> None:
        self.pieces.append('"')
        for begin in range(0, len(text), PIECE):
            self.pieces.append(self._encode(text[begin : begin + PIECE])[1:-1])
        self.pieces.append('"')


def pack_json(value: Any) -> bytes | None:
    """JSON data as bytes in Python's own format, for the keys of caches: written in a fifth of the
    time that JSON takes. None for other types, or what nests too deeply."""
    try:
        return marshal.dumps(value, MARSHAL)
    except ValueError:
        return None


def pack_key(value: Any) -> bytes | None:
    """The same for data that need not be read again: long texts are hashed."""
    try:
        if measure_json(value, PIECE) > PIECE:
            value = _abridge(value)
    except RecursionError:
        return None
    return pack_json(value)


def _abridge(value: Any) -> Any:
    """The value with hashes in the places of long texts."""
    if isinstance(value, str) and len(value) > PIECE:
        digest = hashlib.blake2b(digest_size=32)
        for begin in range(0, len(value), PIECE):
            digest.update(value[begin : begin + PIECE].encode(errors="surrogatepass"))
        return digest.digest()  # JSON data have no bytes
    if isinstance(value, dict):
        members = cast(Members, value)
        return {_abridge(name): _abridge(item) for name, item in members.items()}
    if isinstance(value, (list, tuple)):
        return [_abridge(item) for item in cast(Items, value)]
    return value
