"""The metadata and the list of tensors of a GGUF file; the sizes of types are those of
ggml-common.h."""

import glob
import math
import mmap
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from constrained.engine.gguf.reader import DamagedFile, GgufReader, Item, TensorInfo, Value
from constrained.errors import ModelError

TOKENS, TOKEN_TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
VOCABULARY = (TOKENS, TOKEN_TYPES)
"""The keys of the vocabulary's lists."""
_ALIGNMENT = 32  # bytes, unless the file has another value
_FIRST_PART = re.compile(r"-00001-of-(\d{5})$")
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
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""Types by number: name, numbers in a block, bytes of a block."""


class ModelPurpose(StrEnum):
    TEXT = "text"
    EMBEDDINGS = "embeddings"
    RANKING = "ranking"


POOLED = (1, 2, 3)
RANK = 4
"""How a model combines the vectors of tokens into one (llama.h: enum llama_pooling_type)."""


def count_bytes(tensor: TensorInfo) -> int | None:
    """Returns the size of a tensor; None: its type is not known."""
    if tensor.kind not in TYPES:
        return None
    _, numbers, size = TYPES[tensor.kind]
    return math.prod(tensor.shape) // numbers * size


@dataclass(frozen=True)
class GgufContents:
    """The contents of a GGUF file, without the weights."""

    metadata: Mapping[str, Value]  # lists that were not requested are None
    tensors: Sequence[TensorInfo] = ()  # of this file; other parts of a split model have others
    data: int = 0  # the offset at which the weights begin; 0 for several files together
    size: int = 0
    damage: str = ""  # why the rest could not be read; "" if everything was read

    def text(self, key: str) -> str:
        """Returns a value that is text; "" if there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """Returns a value that is a whole number; None if there is none."""
        value = self.metadata.get(key)
        return value if type(value) is int else None

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    def own(self, name: str) -> int | None:
        """Returns a number of the architecture, such as `block_count`."""
        return self.number(f"{self.architecture}.{name}")

    @property
    def purpose(self) -> ModelPurpose:
        """The purpose of the model. One that generates text has no pooling."""
        pooling = self.own("pooling_type")
        if pooling == RANK:
            return ModelPurpose.RANKING
        return ModelPurpose.EMBEDDINGS if pooling in POOLED else ModelPurpose.TEXT

    @cached_property
    def tokens(self) -> list[str]:
        """The texts of all tokens, in the file's encoding."""
        return [str(item) for item in self._list(TOKENS)]

    @cached_property
    def token_types(self) -> list[Item]:
        return self._list(TOKEN_TYPES)

    def token(self, name: str) -> str:
        """Returns the text of a special token such as `eos`; "" if there is none."""
        number = self.number(f"tokenizer.ggml.{name}_token_id")
        if number is None or not 0 <= number < len(self.tokens):
            return ""
        return self.tokens[number]

    @property
    def weights(self) -> int:
        """Bytes of the tensors whose type is known."""
        return sum(count_bytes(tensor) or 0 for tensor in self.tensors)

    def _list(self, key: str) -> list[Item]:
        value = self.metadata.get(key)
        return value if isinstance(value, list) else []


def read_contents(path: Path, lists: Collection[str] = ()) -> GgufContents:
    """Reads a file, of a split model any part, as far as it goes; of lists only those of these
    keys."""
    size = path.stat().st_size
    if size == 0:
        return GgufContents({}, damage="it is empty")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = GgufReader(data, lists)
        damage = ""
        try:
            reader.read()
        except DamagedFile as e:
            damage = str(e)
    alignment = reader.metadata.get("general.alignment")
    if not isinstance(alignment, int) or alignment < 1:
        alignment = _ALIGNMENT
    begin = -(-reader.at // alignment) * alignment
    return GgufContents(reader.metadata, reader.tensors, data=begin, size=size, damage=damage)


def read_purpose(path: Path) -> ModelPurpose | None:
    """Reads the purpose of a model; None if its file cannot be read."""
    try:
        contents = read_contents(path)
    except OSError:
        return None
    return None if contents.damage else contents.purpose


def list_parts(path: Path) -> list[Path]:
    """Returns the files of a model; for a split one, of whose first part this is the path, all
    existing parts in order."""
    split = _FIRST_PART.search(path.stem)
    if split is None:
        return [path]
    name = glob.escape(path.stem[: split.start()])
    return sorted(path.parent.glob(f"{name}-?????-of-{split[1]}.gguf"))


def join_parts(parts: Sequence[GgufContents]) -> GgufContents:
    """Joins the parts of a split model: the metadata of the first, the tensors of all."""
    if len(parts) == 1:
        return parts[0]
    tensors = [tensor for part in parts for tensor in part.tensors]
    damage = next((part.damage for part in parts if part.damage), "")
    size = sum(part.size for part in parts)
    return GgufContents(parts[0].metadata, tensors, size=size, damage=damage)


def read_sound_contents(path: Path) -> GgufContents:
    """Reads a file whole; raises ModelError if it is damaged."""
    try:
        contents = read_contents(path)
    except OSError as e:
        raise ModelError(f"{path} cannot be read: {e.strerror}") from e
    if contents.damage:
        hint = "The file is damaged: download it again"
        raise ModelError(f"{path} cannot be loaded: {contents.damage}", hint=hint)
    return contents


def read_all_parts(path: Path) -> GgufContents:
    """Reads a model whole, also a split one by its first part; raises ModelError."""
    files = list_parts(path)
    if not files:
        raise ModelError(f"{path} cannot be read: no such file")
    return join_parts([read_sound_contents(file) for file in files])
