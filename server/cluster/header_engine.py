"""An engine without weights: for a process that compiles turns, and has them decoded elsewhere."""

from pathlib import Path
from typing import Any, NoReturn

from constrained.engine.header import Header
from constrained.engine.protocol import DecodeSize
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import ModelError


class HeaderEngine:
    """The header of a model file, with the bounds of the engines that decode for it: the tokens of
    one sequence, and the sequences of all of them together."""

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

    def _refuse(self, *given: Any, **options: Any) -> NoReturn:
        raise ModelError("this process has no weights: its turns are decoded elsewhere")

    decode = sampler = rollback = can_cut = copy = state_size = _refuse
    save = restore = checkpoint = go_back = _refuse

    def release(self, sequence: int) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """The contents of the header stay."""
