"""All that a GGUF file says of itself, read without llama.cpp, which refuses what it does not like.

Source of the layout and of the sizes of types: docs/gguf.md and ggml-common.h of ggml.
"""

import math
import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeAlias

Item: TypeAlias = int | float | bool | str
Value: TypeAlias = Item | list[Item] | None
"""A value of the metadata; None stands for a list that is not read."""
_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"} | {
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_MOST_KEYS, _MOST_TENSORS = 100_000, 1_000_000
_MOST_TEXT = 1 << 26  # bytes of a key or text
_VERSIONS = (2, 3)
TOKENS, TOKEN_TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_LISTS = (TOKENS, TOKEN_TYPES)
_ALIGNMENT = 32  # bytes, where the file does not say otherwise
_MOST_DIMENSIONS = 8
TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}
"""Numbers of types: their names, and how many numbers take how many bytes."""


class DamagedFile(Exception):  # noqa: N818
    """The file breaks off, or says what cannot be."""


@dataclass(frozen=True)
class Tensor:
    """A tensor, as the file announces it.

    Args:
        name: of the tensor.
        shape: numbers in each dimension, the fastest one first.
        kind: the number of its type.
        offset: bytes from the beginning of all tensors.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    @property
    def bytes(self) -> int | None:
        """Its size; None: the type is not known."""
        if self.kind not in TYPES:
            return None
        _, numbers, size = TYPES[self.kind]
        return math.prod(self.shape) // numbers * size


@dataclass(frozen=True)
class GgufContents:
    """What a GGUF file says.

    Args:
        metadata: by key; lists other than the tokens and their types are None.
        tensors: those of this file; a split model has others elsewhere.
        data: the offset at which the tensors begin.
        size: bytes of the file.
        damage: why nothing more could be read; "" if all was.
    """

    metadata: Mapping[str, Value]
    tensors: Sequence[Tensor] = ()
    data: int = 0
    size: int = 0
    damage: str = ""

    def text(self, key: str) -> str:
        """A value that is text; "" if there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """A value that is a whole number; None if there is none."""
        value = self.metadata.get(key)
        return value if type(value) is int else None

    @property
    def architecture(self) -> str:
        """The name of the architecture; "" if the file does not say."""
        return self.text("general.architecture")

    def own(self, name: str) -> int | None:
        """A number of the architecture, such as `block_count`."""
        return self.number(f"{self.architecture}.{name}")

    @cached_property
    def tokens(self) -> list[str]:
        """The texts of all tokens, in the letters of the file."""
        return [str(item) for item in self._list(TOKENS)]

    @cached_property
    def token_types(self) -> list[Item]:
        """The type of each token."""
        return self._list(TOKEN_TYPES)

    def token(self, name: str) -> str:
        """The text of a special token such as `eos`; "" if there is none."""
        number = self.number(f"tokenizer.ggml.{name}_token_id")
        if number is None or not 0 <= number < len(self.tokens):
            return ""
        return self.tokens[number]

    @property
    def weights(self) -> int:
        """Bytes of the tensors whose type is known."""
        return sum(tensor.bytes or 0 for tensor in self.tensors)

    def _list(self, key: str) -> list[Item]:
        value = self.metadata.get(key)
        return value if isinstance(value, list) else []


@dataclass
class _ReadSoFar:
    """What was read before the file turned out to be damaged."""

    metadata: dict[str, Value] = field(default_factory=dict[str, Value])
    tensors: list[Tensor] = field(default_factory=list[Tensor])


def read_contents(path: Path) -> GgufContents:
    """Reads a file as far as it goes.

    Raises:
        OSError: it cannot be read at all.
    """
    progress = _ReadSoFar()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            _read(file, size, progress)
        except DamagedFile as e:
            return GgufContents(progress.metadata, progress.tensors, size=size, damage=str(e))
        alignment = progress.metadata.get("general.alignment")
        if not isinstance(alignment, int) or alignment < 1:
            alignment = _ALIGNMENT
        data = -(-file.tell() // alignment) * alignment
    return GgufContents(progress.metadata, progress.tensors, data=data, size=size)


def _read(file: BinaryIO, size: int, progress: _ReadSoFar) -> None:
    read = _make_reader(file, size)
    file.seek(8)
    count = read("<Q")
    file.seek(0)
    for key, value in _read_metadata(file, size, _LISTS):
        progress.metadata[key] = value
    for _ in range(min(count, _MOST_TENSORS)):
        progress.tensors.append(_read_tensor(file, read, size))


def _read_tensor(file: BinaryIO, read: Callable[[str], int], size: int) -> Tensor:
    name = _read_text(file, read, size)
    dimensions = read("<I")
    if dimensions > _MOST_DIMENSIONS:
        raise DamagedFile(f"its tensor {name!r} has {dimensions} dimensions")
    shape = tuple(read("<Q") for _ in range(dimensions))
    kind, offset = read("<I"), read("<Q")
    return Tensor(name, shape, kind, offset)


def _read_metadata(
    file: BinaryIO, size: int, lists: Collection[str] = ()
) -> Iterator[tuple[str, Value]]:
    """The keys and their values, from the beginning of a file up to what it says of its tensors.

    Args:
        file: at its beginning.
        size: its bytes.
        lists: the keys of the lists that are read; others are skipped.

    Raises:
        DamagedFile: it breaks off, or says what cannot be.
    """
    read = _make_reader(file, size)
    file.read(4)  # the magic number
    version = read("<I")
    if version not in _VERSIONS:
        raise DamagedFile(f"it is of GGUF version {version}, must be 2 or 3")
    tensors, keys = read("<Q"), read("<Q")
    if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
        raise DamagedFile(f"it claims {tensors} tensors and {keys} metadata")
    for _ in range(keys):
        key = _read_text(file, read, size)
        kind = read("<I")
        if kind == _ARRAY:
            yield key, _read_list(file, read, size, is_wanted=key in lists)
        else:
            yield key, _read_item(file, read, size, kind=kind)


def _make_reader(file: BinaryIO, size: int) -> Callable[[str], int]:
    """Reads numbers; the function raises DamagedFile where the file breaks off."""

    def read(form: str) -> int:
        data = file.read(struct.calcsize(form))
        if len(data) < struct.calcsize(form):
            raise DamagedFile(f"it breaks off at byte {size}, inside its metadata")
        return struct.unpack(form, data)[0]

    return read


def _read_text(file: BinaryIO, read: Callable[[str], int], size: int) -> str:
    """Reads a text, which follows its length."""
    length = read("<Q")
    if length > min(_MOST_TEXT, size):
        raise DamagedFile(f"it has a text of {length} bytes at byte {file.tell()}")
    data = file.read(length)
    if len(data) < length:
        raise DamagedFile(f"it breaks off at byte {size}, inside a text")
    return data.decode("utf-8", "replace")


def _read_item(file: BinaryIO, read: Callable[[str], int], size: int, *, kind: int) -> Item:
    if kind == _STRING:
        return _read_text(file, read, size)
    if kind not in _FORMATS:
        raise DamagedFile(f"it has a value of unknown type {kind} at byte {file.tell()}")
    return read(_FORMATS[kind])


def _read_list(
    file: BinaryIO, read: Callable[[str], int], size: int, *, is_wanted: bool
) -> list[Item] | None:
    kind, count = read("<I"), read("<Q")
    if count > size:
        raise DamagedFile(f"it has a list of {count} items at byte {file.tell()}")
    if kind != _STRING and kind not in _FORMATS:
        raise DamagedFile(f"it has a list of unknown type {kind} at byte {file.tell()}")
    if is_wanted:
        return [_read_item(file, read, size, kind=kind) for _ in range(count)]
    if kind == _STRING:
        for _ in range(count):
            length = read("<Q")
            if length > size:
                raise DamagedFile(f"it has a text of {length} bytes at byte {file.tell()}")
            file.seek(length, os.SEEK_CUR)
    else:
        file.seek(count * struct.calcsize(_FORMATS[kind]), os.SEEK_CUR)
    return None
