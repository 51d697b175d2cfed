"""Reads the bytes of a GGUF file up to its weights, within bounds, after docs/gguf.md of ggml."""

import mmap
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeAlias

Item: TypeAlias = int | float | bool | str
Value: TypeAlias = Item | list[Item] | None
"""A value of the metadata; A list that is not read is None."""
# The letters of `struct` for each type of number.
_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_UINT32, _UINT64 = 4, 10
_STRING, _ARRAY = 8, 9
_STRUCTS = {kind: struct.Struct(f"<{letter}") for kind, letter in _NUMBERS.items()}
_LENGTH = _STRUCTS[_UINT64]
_MAX_KEYS, _MAX_TENSORS = 100_000, 100_000
_MAX_DIMENSIONS = 4  # GGML_MAX_DIMS
_MAX_SIZE = 1 << 26  # bytes before the weights: several times as much as the largest vocabulary
_MAX_ITEMS = 1 << 21  # of a list; vocabularies have 300,000, and 600,000 merges
_VERSIONS = (2, 3)


class DamagedFile(Exception):  # noqa: N818  a state of the file, which is told and no failure here
    """The file breaks off, or a value in it is impossible."""


@dataclass(frozen=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]  # the fastest dimension first
    kind: int  # the number of its type
    offset: int  # bytes from the beginning of all tensors


@dataclass
class GgufReader:
    """Reads metadata and tensors, up to the first damage; of lists, only those with these keys."""

    data: mmap.mmap | bytes
    lists: Collection[str] = ()
    metadata: dict[str, Value] = field(default_factory=dict[str, Value])
    tensors: list[TensorInfo] = field(default_factory=list[TensorInfo])
    at: int = 4  # after the magic number

    def read(self) -> None:
        version = self._read_count(_UINT32)
        if version not in _VERSIONS:
            raise DamagedFile(f"it is of GGUF version {version}, must be 2 or 3")
        tensors, keys = self._read_count(), self._read_count()
        if tensors > _MAX_TENSORS or keys > _MAX_KEYS:
            raise DamagedFile(f"it claims {tensors} tensors and {keys} metadata")
        for _ in range(keys):
            key = self._read_text()
            self.metadata[key] = self._read_value(key)
        for _ in range(tensors):
            self.tensors.append(self._read_tensor())

    def _read_tensor(self) -> TensorInfo:
        name = self._read_text()
        dimensions = self._read_count(_UINT32)
        if dimensions > _MAX_DIMENSIONS:
            raise DamagedFile(f"its tensor {name!r} has {dimensions} dimensions")
        shape = tuple(self._read_count() for _ in range(dimensions))
        kind = self._read_count(_UINT32)
        return TensorInfo(name, shape, kind, offset=self._read_count())

    def _read_value(self, key: str) -> Value:
        kind = self._read_count(_UINT32)
        if kind == _ARRAY:
            return self._read_list(key)
        if kind == _STRING:
            return self._read_text()
        if kind not in _STRUCTS:
            raise DamagedFile(f"it has a value of unknown type {kind} at byte {self.at}")
        return self._read_number(kind)

    def _read_list(self, key: str) -> list[Item] | None:
        kind, count = self._read_count(_UINT32), self._read_count()
        is_kept = key in self.lists
        if count > _MAX_ITEMS:
            raise DamagedFile(f"it has a list of {count} items at byte {self.at}")
        if kind == _STRING and is_kept:
            return [self._read_text() for _ in range(count)]
        if kind == _STRING:
            self._skip_texts(count)
            return None
        if kind not in _STRUCTS:
            raise DamagedFile(f"it has a list of unknown type {kind} at byte {self.at}")
        begin = self.at
        self._skip(count * _STRUCTS[kind].size)
        if not is_kept:
            return None
        return list(struct.unpack_from(f"<{count}{_NUMBERS[kind]}", self.data, begin))

    def _skip_texts(self, count: int) -> None:
        """Skips texts; a vocabulary has hundreds of thousands of them."""
        read, data, at = _LENGTH.unpack_from, self.data, self.at
        last = min(len(data), _MAX_SIZE) - _LENGTH.size
        for _ in range(count):
            if at > last:
                raise self._make_end()
            (length,) = read(data, at)
            at += _LENGTH.size + length
        self._skip(at - self.at)

    def _read_text(self) -> str:
        length = self._read_count()
        begin = self.at
        self._skip(length)
        return self.data[begin : self.at].decode("utf-8", "replace")

    def _read_count(self, kind: int = _UINT64) -> int:
        return int(self._read_number(kind))

    def _read_number(self, kind: int) -> int | float | bool:
        begin = self.at
        self._skip(_STRUCTS[kind].size)
        return _STRUCTS[kind].unpack_from(self.data, begin)[0]

    def _skip(self, count: int) -> None:
        if self.at + count > min(len(self.data), _MAX_SIZE):
            raise self._make_end()
        self.at += count

    def _make_end(self) -> DamagedFile:
        if len(self.data) > _MAX_SIZE:
            return DamagedFile(f"its weights begin behind byte {_MAX_SIZE}")
        return DamagedFile(f"it ends at byte {len(self.data)}, before its weights")
