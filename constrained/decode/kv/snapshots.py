"""Snapshots: saved states of sequences, in memory and in files.

If the memory is full, the least recently used snapshots are moved to files.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from constrained.decode.metrics import Amount
from constrained.engine.files.stored import DamagedError
from constrained.prompt.cache_scope import COMMON

DISK = 8 << 30  # bytes


@dataclass(frozen=True)
class Cache:
    """The room for snapshots of sequences.

    Args:
        memory: the maximum bytes in memory.
        folder: of the files; None: snapshots are kept in memory only.
        disk: the maximum bytes of the files in the folder, including those of other models.
    """

    memory: int = 0
    folder: Path | None = None
    disk: int = DISK


NO_CACHE = Cache()


@dataclass(frozen=True)
class Outline:
    """The tokens of a snapshot; it is a `ComputedTokens`. Pinned snapshots are deleted last."""

    tokens: list[int]
    in_blocks: int = 0
    checkpoints: tuple[int, ...] = ()
    is_pinned: bool = False
    scope: str = COMMON

    @cached_property
    def key(self) -> str:
        """A hash of the tokens and the scope, in hexadecimal digits."""
        data = np.asarray(self.tokens, "<i4").tobytes()
        return hashlib.blake2b(data, digest_size=16, key=self.scope.encode()).hexdigest()


@dataclass(frozen=True)
class Snapshot:
    """The saved state of a sequence.

    Args:
        outline: its tokens.
        state: what `Engine.save` returned.
        checkpoints: what `Engine.checkpoint` returned, for each checkpoint of the outline.
    """

    outline: Outline
    state: bytes
    checkpoints: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """The size in bytes, without the tokens."""
        return len(self.state) + sum(map(len, self.checkpoints))


class Files(Protocol):
    """Snapshots in files: `SnapshotFiles`, or `WriteBehind` in front of it."""

    @property
    def amount(self) -> Amount: ...

    def admits(self, size: int) -> bool: ...

    def outlines(self) -> Sequence[Outline]: ...

    def write(self, snapshot: Snapshot) -> None: ...

    def read(self, key: str) -> Snapshot: ...

    def drop(self, key: str) -> None: ...


@dataclass
class Snapshots:
    """The snapshots of one engine. Only the figures and `note` are thread-safe.

    Args:
        budget: the maximum bytes in memory.
        files: keep the snapshots that do not fit into memory; None: they are dropped.

    Attributes:
        amount: of the snapshots in memory.
        failures: how many snapshots could not be saved, restored, written or read.
        last_failure: the message of the last of these errors.
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
        """Returns whether a snapshot of this size in bytes can be kept."""
        return size <= self.budget or (self.files is not None and self.files.admits(size))

    def outlines(self) -> Iterator[Outline]:
        """Yields the outlines of all snapshots; one in memory and in a file comes twice."""
        for snapshot in list(self._kept.values()):
            yield snapshot.outline
        if self.files:
            yield from self.files.outlines()

    def find(self, value: Callable[[Outline], int]) -> tuple[int, Outline | None]:
        """Returns the highest value of a snapshot, and its outline; 0 and None if all are 0.

        Args:
            value: of a snapshot. Among equal ones, a snapshot in memory is preferred.
        """
        best, best_value = None, 0
        for outline in self.outlines():
            found = value(outline)
            if found > best_value:
                best, best_value = outline, found
        return best_value, best

    def take(self, outline: Outline) -> Snapshot | None:
        """Returns the snapshot of an outline. A damaged one is dropped, and None is returned."""
        snapshot = self._kept.get(outline.key)
        if snapshot is not None:
            self._kept.move_to_end(outline.key)
            return snapshot
        assert self.files is not None
        try:
            return self.files.read(outline.key)
        except DamagedError as error:
            self.note(error)
            self.drop(outline)
            return None

    def put(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot: in memory if it fits, otherwise in a file."""
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
        """Returns the key of the snapshot in memory to drop first: pinned ones come last."""
        for key, snapshot in self._kept.items():
            if not snapshot.outline.is_pinned:
                return key
        return next(iter(self._kept))

    def drop(self, outline: Outline) -> None:
        """Deletes a snapshot from memory and from the files."""
        self._forget(outline.key)
        if self.files:
            try:
                self.files.drop(outline.key)
            except OSError as error:
                self.note(error)

    def flush(self) -> None:
        """Writes the snapshots in memory to files; pinned ones last, so they are deleted last."""
        for snapshot in sorted(self._kept.values(), key=lambda kept: kept.outline.is_pinned):
            self._write(snapshot)

    def note(self, error: Exception) -> None:
        """Counts a failure of the cache. Requests go on without the cached state."""
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
