"""Metadata that llama.cpp does not survive.

It does not check values: a layer count of 0 or 2^32 - 1 ends the process.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from constrained.errors import ModelError
from constrained.gguf.contents import GgufContents, read_contents

_HINT = "The file is damaged: download it again"
# Keys after the prefix of the architecture, with the minimum and maximum that llama.cpp supports.
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


def check_metadata(path: Path) -> None:
    """Reads the metadata of a GGUF file and checks those that llama.cpp does not.

    Raises:
        ModelError: they cannot be read, or one of them is not valid; the message names it.
    """
    for key, problem in _find_problems(read_sound_contents(path)):
        raise ModelError(f"{path} cannot be loaded: its {key} is {problem}", hint=_HINT)


def read_sound_contents(path: Path) -> GgufContents:
    """Reads a file whole.

    Raises:
        ModelError: it cannot be read, or is damaged.
    """
    try:
        contents = read_contents(path)
    except OSError as e:
        raise ModelError(f"{path} cannot be read: {e.strerror}") from e
    if contents.damage:
        raise ModelError(f"{path} cannot be loaded: {contents.damage}", hint=_HINT)
    return contents


def _find_problems(contents: GgufContents) -> Iterator[tuple[str, str]]:
    found, architecture = contents.metadata, contents.architecture
    for name, (minimum, maximum) in _COUNTS.items():
        key = f"{architecture}.{name}"
        value = found.get(key)
        # Some of them are lists, with a number for each layer.
        if isinstance(value, int | float) and not minimum <= value <= maximum:
            yield key, f"{value}, must be from {minimum} to {maximum}"
    for name in _EPSILONS:
        key = f"{architecture}.{name}"
        value = found.get(key)
        if isinstance(value, int | float) and not (math.isfinite(value) and 0 <= value < 1):
            yield key, f"{value}, must be from 0 to 1"
