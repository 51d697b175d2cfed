"""Reads the key-value section of a GGUF file.

`gguf.GGUFReader` makes two numpy views for every string of an array: about 7 seconds for the
300 000 strings of Qwen's vocabulary. Reading the same bytes in one pass takes 0.2 seconds.
"""

import struct
from pathlib import Path
from typing import BinaryIO

from gguf import GGUF_MAGIC, GGUFValueType

TYPE_CODES = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}

Scalar = str | int | float | bool
Value = Scalar | list[Scalar]


def read_metadata(path: Path) -> dict[str, Value]:
    """Returns all key-value pairs of a little-endian GGUF file, in the order of the file.

    Raises:
        ValueError: not a GGUF file of version 2 or 3, cut off, or not valid UTF-8.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            magic, version, _n_tensors, n_values = _numbers(file, "IIQQ")
            if magic != GGUF_MAGIC or version not in (2, 3):
                raise ValueError("not a little-endian GGUF file of version 2 or 3")
            return {_string(file): _value(file) for _ in range(int(n_values))}
        except (struct.error, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error


def _numbers(file: BinaryIO, codes: str) -> tuple[int | float | bool, ...]:
    layout = "<" + codes  # "<" also switches padding off
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _string(file: BinaryIO) -> str:
    length = int.from_bytes(file.read(8), "little")
    data = file.read(length)
    if len(data) != length:
        raise ValueError("the file ends in the middle of a string")
    return data.decode()


def _value(file: BinaryIO) -> Value:
    kind = GGUFValueType(_numbers(file, "I")[0])
    if kind == GGUFValueType.STRING:
        return _string(file)
    if kind != GGUFValueType.ARRAY:
        return _numbers(file, TYPE_CODES[kind])[0]
    item_kind, count = _numbers(file, "IQ")
    if item_kind == GGUFValueType.STRING:
        return [_string(file) for _ in range(int(count))]
    if item_kind == GGUFValueType.ARRAY:
        raise ValueError("arrays of arrays are not supported")
    return list(_numbers(file, f"{count}{TYPE_CODES[GGUFValueType(item_kind)]}"))
