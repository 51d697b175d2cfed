"""Saved states of sequences: in memory, where the least recently used goes first, and in files."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from constrained.cache_scope import COMMON
from constrained.metrics import Amount

DISK = 8 << 30  # bytes


@dataclass(frozen=True)
class Cache:
    """The room for snapshots of sequences.

    Args:
        memory: bytes; 0: nothing.
        folder: of the files; None: there are none.
        disk: bytes of the files in the folder, those of other models included.
    """

    memory: int = 0
    folder: Path | None = None
    disk: int = DISK


NO_CACHE = Cache()


@dataclass(frozen=True)
class Outline:
    """A snapshot without its state: `ComputedTokens`. A pinned one is given up last."""

    tokens: list[int]
    in_blocks: int = 0
    checkpoints: tuple[int, ...] = ()
    is_pinned: bool = False
    scope: str = COMMON

    @cached_property
    def key(self) -> str:
        """Tells snapshots of different tokens or scopes apart."""
        data = np.asarray(self.tokens, "<i4").tobytes()
        return hashlib.blake2b(data, digest_size=16, key=self.scope.encode()).hexdigest()


@dataclass(frozen=True)
class Snapshot:
    """The state of a sequence.

    Args:
        outline: its tokens.
        state: as the engine saves it.
        checkpoints: one for each position of the outline.
    """

    outline: Outline
    state: bytes
    checkpoints: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """In bytes, without its tokens."""
        return len(self.state) + sum(map(len, self.checkpoints))


class Files(Protocol):
    """Snapshots outside of memory: `SnapshotFiles`, or `WriteBehind` in front of it."""

    @property
    def amount(self) -> Amount: ...

    def admits(self, size: int) -> bool: ...

    def outlines(self) -> Sequence[Outline]: ...

    def write(self, snapshot: Snapshot) -> None: ...

    def read(self, key: str) -> Snapshot: ...

    def drop(self, key: str) -> None: ...


@dataclass
class Snapshots:
    """Snapshots of one engine. Not for two threads at once, apart from the figures and `note`.

    Args:
        budget: bytes in memory.
        files: keep those that do not fit.

    Attributes:
        amount: of those in memory.
        failures: the number that could not be kept or read; and the last reason.
    """

    budget: int = 0
    files: Files | None = None
    amount: Amount = field(default_factory=Amount)
    failures: int = 0
    last_failure: str | None = None
    _kept: OrderedDict[str, Snapshot] = field(default_factory=OrderedDict[str, Snapshot])
    _noting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_off(self) -> bool:
        """True if nothing is kept at all."""
        return self.budget <= 0 and self.files is None

    def admits(self, size: int) -> bool:
        """True if a snapshot of so many bytes can be kept."""
        return size <= self.budget or (self.files is not None and self.files.admits(size))

    def outlines(self) -> Iterator[Outline]:
        """All snapshots; the same one may be in memory and in a file."""
        for snapshot in list(self._kept.values()):
            yield snapshot.outline
        if self.files:
            yield from self.files.outlines()

    def find(self, value: Callable[[Outline], int]) -> tuple[int, Outline | None]:
        """The most valuable snapshot and its value; of equal ones one in memory."""
        best, best_value = None, 0
        for outline in self.outlines():
            found = value(outline)
            if found > best_value:
                best, best_value = outline, found
        return best_value, best

    def take(self, outline: Outline) -> Snapshot | None:
        """A snapshot that was found, or None if it is damaged; then it is forgotten."""
        snapshot = self._kept.get(outline.key)
        if snapshot is not None:
            self._kept.move_to_end(outline.key)
            return snapshot
        assert self.files is not None
        try:
            return self.files.read(outline.key)
        except (OSError, ValueError) as error:
            self.note(error)
            self.drop(outline)
            return None

    def put(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot, in memory if it fits, else in a file."""
        key = snapshot.outline.key
        self._forget(key)
        if snapshot.size > self.budget:
            self._write(snapshot)
            return
        while self.amount.bytes + snapshot.size > self.budget:
            self._write(self._forget(self._find_oldest()))
        self._kept[key] = snapshot
        self._count(snapshot, 1)

    def _find_oldest(self) -> str:
        """The key of the least recently used snapshot in memory; the pinned ones come last."""
        for key, snapshot in self._kept.items():
            if not snapshot.outline.is_pinned:
                return key
        return next(iter(self._kept))

    def drop(self, outline: Outline) -> None:
        """Forgets a snapshot that is of no use; it is not written to a file."""
        self._forget(outline.key)
        if self.files:
            try:
                self.files.drop(outline.key)
            except OSError as error:
                self.note(error)

    def flush(self) -> None:
        """Writes to files what is in memory, the pinned ones last: they stay longest."""
        for snapshot in sorted(self._kept.values(), key=lambda kept: kept.outline.is_pinned):
            self._write(snapshot)

    def note(self, error: Exception) -> None:
        """Counts a failure that no request has to suffer from."""
        with self._noting:
            self.failures += 1
            self.last_failure = str(error) or type(error).__name__

    def _write(self, snapshot: Snapshot | None) -> None:
        if snapshot and self.files and self.files.admits(snapshot.size):
            try:
                self.files.write(snapshot)
            except OSError as error:
                self.note(error)

    def _forget(self, key: str) -> Snapshot | None:
        snapshot = self._kept.pop(key, None)
        if snapshot:
            self._count(snapshot, -1)
        return snapshot

    def _count(self, snapshot: Snapshot, sign: int) -> None:
        old, size = self.amount, sign * snapshot.size
        tokens = old.tokens + sign * len(snapshot.outline.tokens)
        self.amount = Amount(old.count + sign, tokens, old.bytes + size)
