"""An engine without weights: for a process that compiles turns, and has them decoded elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from constrained.engine.header import Header
from constrained.engine.protocol import Chunk, DecodeSize, Sampler, Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import ModelError


class HeaderEngine:
    """The header of a model file, with the bounds of the engines that decode for it.

    Args:
        header: of the file.
        path: of the file.
        context_length: tokens of one sequence.
        max_sequences: of all these engines together.
    """

    needs_checkpoints = False
    offloads = False
    splits_uneven = False
    last_decode = DecodeSize()
    max_drafted = 0
    notices: tuple[str, ...] = ()

    def __init__(self, header: Header, path: Path, *, context_length: int, max_sequences: int):
        self.header = header
        self.context_length = context_length
        self.max_sequences = max_sequences
        self._path = path

    @property
    def vocabulary(self) -> Vocabulary:
        return self.header.vocabulary

    @property
    def path(self) -> Path | None:
        return self._path

    @property
    def memory_bytes(self) -> int:
        return 0

    @property
    def fingerprint(self) -> str:
        return self.header.vocabulary.fingerprint

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        _refuse()

    def sampler(self, sampling: Sampling) -> Sampler:
        _refuse()

    def rollback(self, sequence: int, length: int) -> bool:
        _refuse()

    def can_cut(self, sequence: int, length: int) -> bool:
        _refuse()

    def copy(self, source: int, target: int, length: int) -> None:
        _refuse()

    def state_size(self, sequence: int) -> int:
        _refuse()

    def save(self, sequence: int) -> bytes:
        _refuse()

    def restore(self, sequence: int, length: int, state: bytes) -> None:
        _refuse()

    def checkpoint(self, sequence: int) -> bytes:
        _refuse()

    def go_back(self, sequence: int, length: int, checkpoint: bytes) -> None:
        _refuse()

    def release(self, sequence: int) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """Does nothing: the contents of the header stay."""


def _refuse() -> NoReturn:
    raise ModelError("this process has no weights: its turns are decoded elsewhere")
