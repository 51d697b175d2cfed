"""The metadata of a GGUF file: checked before llama.cpp sees them, and what they say of the model.

llama.cpp believes what it reads: a count of layers of 0 or 2^32 - 1 ends the process. Source of the
layout: docs/gguf.md of ggml.
"""

import glob
import math
import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from constrained.errors import ModelError

Value: TypeAlias = int | float | bool | str | None
"""A value of the metadata; None stands for a list, which is not read."""
_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"} | {
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRUCTS = {form: struct.Struct(form) for form in _FORMATS.values()}
_LENGTH = _STRUCTS["<Q"]
_STRING, _ARRAY = 8, 9
_MOST_KEYS, _MOST_TENSORS, _MOST_DIMENSIONS = 100_000, 1_000_000, 4
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
_HINT = "The file is damaged: download it again"
_LATER_PARTS = re.compile(r"-00001-of-(\d{5})$")


@dataclass(frozen=True)
class ModelFacts:
    """What a model file says of itself; "" and 0 stand for what it does not say.

    Args:
        name: as its makers call it.
        architecture: in llama.cpp's terms, such as `qwen3`.
        quantisation: in the terms of llama.cpp's files, such as `Q4_K_M`.
        parameters: of the model.
        context_length: tokens that it was trained for.
        embedding_length: numbers of an embedding.
        bytes: of its files.
    """

    name: str = ""
    architecture: str = ""
    quantisation: str = ""
    parameters: int = 0
    context_length: int = 0
    embedding_length: int = 0
    bytes: int = 0


NO_FACTS = ModelFacts()


@dataclass(frozen=True)
class _Contents:
    """What a file has in front of its weights: metadata, and how many weights of each type."""

    metadata: dict[str, Value]
    weights: Counter[int]


class _Damaged(Exception):  # noqa: N818
    """The file breaks off, or says what cannot be."""


def check_metadata(path: Path) -> None:
    """Reads the metadata of a GGUF file and checks those that llama.cpp does not.

    Raises:
        ModelError: they cannot be read, or one of them makes no sense; names it.
    """
    found = _read(path).metadata
    for key, problem in _find_problems(found):
        raise ModelError(f"{path} cannot be loaded: its {key} is {problem}", hint=_HINT)


def read_facts(path: Path) -> ModelFacts:
    """What a model file says of itself, without loading it.

    Args:
        path: of a split file, the first part.

    Raises:
        ModelError: it cannot be read.
    """
    files = list_parts(path)
    if not files:
        raise ModelError(f"{path} cannot be read: it is not there any more")
    parts = [_read(file) for file in files]
    found = parts[0].metadata
    weights = Counter[int]()
    for part in parts:
        weights += part.weights
    architecture = _find_text(found, "general.architecture")
    return ModelFacts(
        name=_find_text(found, "general.name"),
        architecture=architecture,
        quantisation=_name_quantisation(found.get("general.file_type"), weights),
        parameters=weights.total(),
        context_length=_find_count(found, f"{architecture}.context_length"),
        embedding_length=_find_count(found, f"{architecture}.embedding_length"),
        bytes=sum(file.stat().st_size for file in files),
    )


def list_parts(path: Path) -> list[Path]:
    """The files of a model: of a split one all parts that are there, in their order."""
    split = _LATER_PARTS.search(path.stem)
    if split is None:
        return [path]
    name = glob.escape(path.stem[: split.start()])
    return sorted(path.parent.glob(f"{name}-?????-of-{split[1]}.gguf"))


def _find_text(found: dict[str, Value], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _find_count(found: dict[str, Value], key: str) -> int:
    value = found.get(key)
    return value if isinstance(value, int) else 0


def _name_quantisation(file_type: Value, weights: Counter[int]) -> str:
    """The name of the quantisation: what the file says, else the type of most of its weights."""
    from constrained.engine.llama_params import name_file_type, name_weight_type

    if isinstance(file_type, int) and (name := name_file_type(file_type)):
        return name
    if not weights:
        return ""
    [(most, _)] = weights.most_common(1)
    return name_weight_type(most)


def _read(path: Path) -> _Contents:
    """Raises ModelError if the file cannot be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _MetadataReader(data).read()
    except _Damaged as e:
        raise ModelError(f"{path} cannot be loaded: {e}", hint=_HINT) from e
    except OSError as e:
        raise ModelError(f"{path} cannot be read: {e.strerror}") from e
    except ValueError as e:  # of mmap
        raise ModelError(f"{path} is empty", hint=_HINT) from e


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


class _MetadataReader:
    """Reads a file up to its weights; whatever it raises is _Damaged."""

    def __init__(self, data: mmap.mmap):
        self._data = data
        self._size = len(data)
        self._at = 4  # behind the magic number

    def read(self) -> _Contents:
        version = self._read_number("<I")
        if version not in _VERSIONS:
            raise _Damaged(f"it is of GGUF version {version}, must be 2 or 3")
        tensors, keys = self._read_count(), self._read_count()
        if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
            raise _Damaged(f"it claims {tensors} tensors and {keys} metadata")
        metadata: dict[str, Value] = {}
        for _ in range(keys):
            key = self._read_text()
            metadata[key] = self._read_value(self._read_count("<I"))
        weights = Counter[int]()
        for _ in range(tensors):
            kind, count = self._read_tensor()
            weights[kind] += count
        return _Contents(metadata, weights)

    def _read_tensor(self) -> tuple[int, int]:
        """The type of the weights of a tensor, and how many there are."""
        self._read_text()
        dimensions = self._read_count("<I")
        if dimensions > _MOST_DIMENSIONS:
            raise _Damaged(f"it has a tensor of {dimensions} dimensions at byte {self._at}")
        count = 1
        for _ in range(dimensions):
            count *= self._read_count()
        kind = self._read_count("<I")
        self._read_count()  # where its weights are
        return kind, count

    def _read_value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._read_text()
        if kind == _ARRAY:
            self._skip_list()
            return None
        if kind not in _FORMATS:
            raise _Damaged(f"it has a value of unknown type {kind} at byte {self._at}")
        return self._read_number(_FORMATS[kind])

    def _read_text(self) -> str:
        length = self._read_count()
        if length > min(_MOST_TEXT, self._size):
            raise _Damaged(f"it has a text of {length} bytes at byte {self._at}")
        begin = self._at
        self._skip(length)
        return self._data[begin : self._at].decode("utf-8", "replace")

    def _skip_list(self) -> None:
        kind, count = self._read_count("<I"), self._read_count()
        if count > self._size:
            raise _Damaged(f"it has a list of {count} items at byte {self._at}")
        if kind == _STRING:
            self._skip_texts(count)
        elif kind in _FORMATS:
            self._skip(count * _STRUCTS[_FORMATS[kind]].size)
        else:
            raise _Damaged(f"it has a list of unknown type {kind} at byte {self._at}")

    def _skip_texts(self, count: int) -> None:
        """Skips texts; a vocabulary has hundreds of thousands of them."""
        read, data, size, at = _LENGTH.unpack_from, self._data, self._size, self._at
        try:
            for _ in range(count):
                (length,) = read(data, at)
                at += _LENGTH.size + length
                if at > size:
                    raise _Damaged(f"it has a text of {length} bytes at byte {at - length}")
        except struct.error:
            raise self._make_end() from None
        self._at = at

    def _read_count(self, form: str = "<Q") -> int:
        return int(self._read_number(form))

    def _read_number(self, form: str) -> int | float | bool:
        begin = self._at
        self._skip(_STRUCTS[form].size)
        return _STRUCTS[form].unpack_from(self._data, begin)[0]

    def _skip(self, count: int) -> None:
        if self._at + count > self._size:
            raise self._make_end()
        self._at += count

    def _make_end(self) -> _Damaged:
        return _Damaged(f"it breaks off at byte {self._size}, inside its metadata")
