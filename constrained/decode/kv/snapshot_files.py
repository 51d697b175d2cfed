"""Snapshots of sequences as files in a folder. The files contain the tokens of prompts.

A file has a magic number, a checksum of the rest, the size of the header, the header as JSON, the
tokens as int32, the state, and the checkpoints. Numbers are little-endian.
"""

import hashlib
import json
import os
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from constrained.decode.kv.snapshots import Outline, Snapshot
from constrained.decode.metrics import Amount
from constrained.engine.files.private_files import make_private, open_private, replace_file
from constrained.engine.files.stored import reading, skipping
from constrained.errors import RequestError
from constrained.prompt.cache_scope import COMMON

MAGIC = b"CSTRSEQ\1"  # the last byte is the version
PREFIX = struct.Struct("<8s32sI")  # magic, checksum, size of the header
MAX_HEADER = 1 << 20  # bytes
MAX_TOKENS = 1 << 22
PINNED = ".pinned"
SCOPE = re.compile(r"([0-9a-f]{32})?")  # see `name_scope`
NAME = re.compile(rf"[0-9a-f]{{32}}-[0-9a-f]{{32}}({PINNED})?\.snapshot")


@dataclass(frozen=True)
class _Header:
    fingerprint: str
    tokens: int
    in_blocks: int
    is_pinned: bool
    state: int  # bytes
    checkpoints: list[list[int]]  # of each, its number of tokens and its bytes
    scope: str = COMMON  # missing in files of earlier versions

    @property
    def size(self) -> int:
        return 4 * self.tokens + self.state + sum(size for _, size in self.checkpoints)


@dataclass(frozen=True)
class _Entry:
    path: Path
    outline: Outline
    size: int


class SnapshotFiles:
    """The snapshots of one model and context in a folder. One thread may change them while
    another one reads.

    Files are written atomically. Snapshots of other models count towards the budget, too; the least
    recently used are deleted first. Other files are left alone. Only regular files of this user or
    root are read. The folder and the files that are read are made private to the user.

    Args:
        folder: is created if it does not exist.
        fingerprint: names the model and the context; snapshots of others have another one.
        budget: the maximum bytes of all snapshots in the folder.

    Raises:
        RequestError: the folder cannot be created or read, or cannot be made private.
    """

    def __init__(self, folder: Path, fingerprint: str, budget: int):
        self._folder = folder
        self._budget = budget
        self._fingerprint = hashlib.blake2b(fingerprint.encode(), digest_size=16).hexdigest()
        self._entries: dict[str, _Entry] = {}
        try:
            if not make_private(folder, NAME):
                message = (
                    f"other users can access {folder}, and it has files that are not snapshots"
                )
                hint = "Choose a folder only for snapshots, or make this one private (chmod 700)"
                raise RequestError(message, hint=hint)
            paths = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))
        except OSError as e:
            message = f"{folder} cannot be used for snapshots: {e.strerror}"
            raise RequestError(message, hint="Name another folder (--cache-dir)") from e
        for path in paths:
            self._enter(path)
        self._keep(self._entries)

    def _enter(self, path: Path) -> None:
        with skipping(path):  # `_make_room` deletes it in time
            with open_private(path, self._budget) as file:
                header, outline = _read_head(file)
                size = os.fstat(file.fileno()).st_size
            if header.fingerprint == self._fingerprint:
                self._entries[outline.key] = _Entry(path, outline, size)

    def _keep(self, entries: dict[str, _Entry]) -> None:
        """Replaces the dictionary, since another thread may be reading the old one."""
        self._entries = entries
        tokens = sum(len(entry.outline.tokens) for entry in entries.values())
        size = sum(entry.size for entry in entries.values())
        self.amount = Amount(len(entries), tokens, size)

    def admits(self, size: int) -> bool:
        """Returns whether a snapshot of this size, in bytes, can be kept."""
        return size <= self._budget

    def outlines(self) -> Sequence[Outline]:
        """Returns the outlines of the snapshots that can be read."""
        return [entry.outline for entry in self._entries.values()]

    def write(self, snapshot: Snapshot) -> None:
        """Writes a snapshot, and deletes the least recently used ones if there is no room."""
        outline = snapshot.outline
        old = self._entries.get(outline.key)
        if old and old.outline == outline:
            # The modification time of a file is the time of its last use.
            with suppress(FileNotFoundError):  # another process has deleted it: write it again
                os.utime(old.path)
                return
        data = _encode(snapshot, self._fingerprint)
        size = sum(map(len, data))
        self.drop(outline.key)
        self._make_room(size)
        pinned = PINNED if outline.is_pinned else ""
        path = self._folder / f"{self._fingerprint}-{outline.key}{pinned}.snapshot"
        replace_file(path, data)
        self._keep({**self._entries, outline.key: _Entry(path, outline, size)})

    def read(self, key: str) -> Snapshot:
        """Reads a snapshot.

        Raises:
            DamagedError: it is deleted, or cannot be read.
        """
        entry = self._entries.get(key)
        with reading("a snapshot" if entry is None else entry.path):
            if entry is None:
                raise FileNotFoundError("it was removed to make room for others")
            with open_private(entry.path, self._budget) as file:
                snapshot = _decode(file.read(), self._fingerprint)
            if snapshot.outline != entry.outline:
                raise ValueError("it has other tokens than before")
            os.utime(entry.path)
            return snapshot

    def drop(self, key: str) -> None:
        """Deletes the snapshot with this key, if there is one."""
        entry = self._entries.get(key)
        if entry is not None:
            self._keep({other: kept for other, kept in self._entries.items() if other != key})
            entry.path.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        """Deletes the least recently used files until `size` bytes fit, the pinned ones last."""
        # `match` also finds temporary files of `replace_file` that were never completed.
        files: list[tuple[bool, int, str, int]] = []
        total = size
        for entry in os.scandir(self._folder):
            if NAME.match(entry.name) and entry.is_file(follow_symlinks=False):
                found = entry.stat(follow_symlinks=False)
                files.append((PINNED in entry.name, found.st_mtime_ns, entry.path, found.st_size))
                total += found.st_size
        for _, _, path, file_size in sorted(files):
            if total <= self._budget:
                break
            Path(path).unlink(missing_ok=True)
            total -= file_size
        self._keep({key: entry for key, entry in self._entries.items() if entry.path.exists()})


def _encode(snapshot: Snapshot, fingerprint: str) -> list[bytes]:
    outline = snapshot.outline
    checkpoints: list[list[int]] = []
    for position, data in zip(outline.checkpoints, snapshot.checkpoints, strict=True):
        checkpoints.append([position, len(data)])
    header = _Header(
        fingerprint=fingerprint,
        tokens=len(outline.tokens),
        in_blocks=outline.in_blocks,
        is_pinned=outline.is_pinned,
        state=len(snapshot.state),
        checkpoints=checkpoints,
        scope=outline.scope,
    )
    text = json.dumps(asdict(header)).encode()
    tokens = np.asarray(outline.tokens, "<i4").tobytes()
    body = [text, tokens, snapshot.state, *snapshot.checkpoints]
    return [PREFIX.pack(MAGIC, _checksum(body), len(text)), *body]


def _checksum(body: Sequence[bytes | memoryview]) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for part in body:
        digest.update(part)
    return digest.digest()


def _read_head(file: BinaryIO) -> tuple[_Header, Outline]:
    """Reads a file up to the states; raises ValueError if it is damaged."""
    prefix = file.read(PREFIX.size)
    if len(prefix) < PREFIX.size or not prefix.startswith(MAGIC):
        raise ValueError("not a snapshot of this version")
    size = PREFIX.unpack(prefix)[2]
    if size > MAX_HEADER:
        raise ValueError("the header is damaged")
    header = _parse_header(file.read(size))
    file.seek(0, os.SEEK_END)
    if file.tell() != PREFIX.size + size + header.size:
        raise ValueError("the file has the wrong length")
    if header.tokens > MAX_TOKENS:
        raise ValueError("the header states more tokens than any context has")
    file.seek(PREFIX.size + size)
    tokens = np.frombuffer(file.read(4 * header.tokens), "<i4").tolist()
    positions = tuple(position for position, _ in header.checkpoints)
    outline = Outline(
        tokens,
        header.in_blocks,
        positions,
        is_pinned=header.is_pinned,
        scope=header.scope,
    )
    return header, outline


def _parse_header(text: bytes) -> _Header:
    header = _Header(**json.loads(text))
    sizes = chain.from_iterable(header.checkpoints)
    for number in (header.tokens, header.in_blocks, header.state, *sizes):
        if type(number) is not int or number < 0:
            raise ValueError("a number is not an integer, or is negative")
    if not SCOPE.fullmatch(header.scope):
        raise ValueError("the scope is not valid")
    return header


def _decode(data: bytes, fingerprint: str) -> Snapshot:
    """Reads a whole file; raises ValueError if it is damaged or of another model or context."""
    file = BytesIO(data)
    header, outline = _read_head(file)
    if header.fingerprint != fingerprint:
        raise ValueError("the snapshot is of another model or context")
    if _checksum([memoryview(data)[PREFIX.size :]]) != PREFIX.unpack_from(data)[1]:
        raise ValueError("the snapshot is damaged")
    state = file.read(header.state)
    checkpoints = tuple(file.read(size) for _, size in header.checkpoints)
    return Snapshot(outline, state, checkpoints)
