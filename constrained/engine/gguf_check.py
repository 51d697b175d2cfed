"""The metadata of a GGUF file, checked before llama.cpp sees them.

llama.cpp believes what it reads: a count of layers of 0 or 2^32 - 1 ends the process. Source of the
layout: docs/gguf.md of ggml.
"""

import math
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

from constrained.errors import ModelError

Value: TypeAlias = int | float | bool | str | None
"""A value of the metadata; None stands for a list, which is not read."""
_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"} | {
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_MOST_KEYS, _MOST_TENSORS = 100_000, 1_000_000
_MOST_TEXT = 1 << 26  # bytes of a key or text
_VERSIONS = (2, 3)
_SPLIT = "split.count"
# What is behind the architecture: the least and the most that llama.cpp can work with.
_COUNTS = {
    "block_count": (1, 512),
    "context_length": (1, 2**31 - 1),
    "embedding_length": (1, 2**20),
    "feed_forward_length": (0, 2**24),
    "attention.head_count": (0, 2**14),
    "attention.head_count_kv": (0, 2**14),
    "attention.key_length": (1, 2**16),
    "attention.value_length": (1, 2**16),
    "rope.dimension_count": (0, 2**16),
    "expert_count": (0, 2**14),
    "expert_used_count": (0, 2**14),
    "vocab_size": (1, 2**24),
}
_EPSILONS = ("attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon")


class _Damaged(Exception):  # noqa: N818
    """The file breaks off, or says what cannot be."""


def check_metadata(path: Path) -> None:
    """Reads the metadata of a GGUF file and checks those that llama.cpp does not.

    Raises:
        ModelError: they cannot be read, or one of them makes no sense; names it.
    """
    hint = "The file is damaged: download it again"
    try:
        with path.open("rb") as file:
            found = dict(_read_metadata(file, os.fstat(file.fileno()).st_size))
    except _Damaged as e:
        raise ModelError(f"{path} cannot be loaded: {e}", hint=hint) from e
    except OSError as e:
        raise ModelError(f"{path} cannot be read: {e.strerror}") from e
    for key, problem in _find_problems(found):
        raise ModelError(f"{path} cannot be loaded: its {key} is {problem}", hint=hint)


def _find_problems(found: dict[str, Value]) -> Iterator[tuple[str, str]]:
    architecture = found.get("general.architecture")
    for name, (least, most) in _COUNTS.items():
        key = f"{architecture}.{name}"
        value = found.get(key)
        # Some of them are lists, with a number for each layer.
        if isinstance(value, int | float) and not least <= value <= most:
            yield key, f"{value}, must be from {least} to {most}"
    for name in _EPSILONS:
        key = f"{architecture}.{name}"
        value = found.get(key)
        if isinstance(value, int | float) and not (math.isfinite(value) and 0 <= value < 1):
            yield key, f"{value}, must be from 0 to 1"


def _read_metadata(file: BinaryIO, size: int) -> Iterator[tuple[str, Value]]:
    """The keys and their values; raises _Damaged."""
    read = _make_reader(file, size)
    file.read(4)  # the magic number
    version = read("<I")
    if version not in _VERSIONS:
        raise _Damaged(f"it is of GGUF version {version}, must be 2 or 3")
    tensors, keys = read("<Q"), read("<Q")
    if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
        raise _Damaged(f"it claims {tensors} tensors and {keys} metadata")
    for _ in range(keys):
        key = _read_text(file, read, size)
        yield key, _read_value(file, read, size, kind=read("<I"))


def _make_reader(file: BinaryIO, size: int) -> Callable[[str], int]:
    def read(form: str) -> int:
        data = file.read(struct.calcsize(form))
        if len(data) < struct.calcsize(form):
            raise _Damaged(f"it breaks off at byte {size}, inside its metadata")
        return struct.unpack(form, data)[0]

    return read


def _read_text(file: BinaryIO, read: Callable[[str], int], size: int) -> str:
    length = read("<Q")
    if length > min(_MOST_TEXT, size):
        raise _Damaged(f"it has a text of {length} bytes at byte {file.tell()}")
    return file.read(length).decode("utf-8", "replace")


def _read_value(file: BinaryIO, read: Callable[[str], int], size: int, *, kind: int) -> Value:
    if kind == _STRING:
        return _read_text(file, read, size)
    if kind == _ARRAY:
        _skip_list(file, read, size)
        return None
    if kind not in _FORMATS:
        raise _Damaged(f"it has a value of unknown type {kind} at byte {file.tell()}")
    return read(_FORMATS[kind])


def _skip_list(file: BinaryIO, read: Callable[[str], int], size: int) -> None:
    kind, count = read("<I"), read("<Q")
    if count > size:
        raise _Damaged(f"it has a list of {count} items at byte {file.tell()}")
    if kind == _STRING:
        for _ in range(count):
            length = read("<Q")
            if length > size:
                raise _Damaged(f"it has a text of {length} bytes at byte {file.tell()}")
            file.seek(length, os.SEEK_CUR)
    elif kind in _FORMATS:
        file.seek(count * struct.calcsize(_FORMATS[kind]), os.SEEK_CUR)
    else:
        raise _Damaged(f"it has a list of unknown type {kind} at byte {file.tell()}")
