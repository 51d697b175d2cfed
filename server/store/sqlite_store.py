"""A shared store in an SQLite file, for processes on one machine."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from constrained.engine.files.stored import has_tables
from grammars.limits.byte_cache import MIB
from server.models.shared_store import StoreEntry, explain_failure

MAX_BYTES = 1024 * MIB
CHECKED = 256
"""How many writes of a process come between two checks of the size."""
BUSY_SECONDS = 5
OVERHEAD = 100  # the bytes of a row beside its key and value
_TABLE = """
CREATE TABLE IF NOT EXISTS entries (
    space TEXT NOT NULL, key TEXT NOT NULL, field TEXT NOT NULL,
    value BLOB NOT NULL, size INTEGER NOT NULL, used REAL NOT NULL,
    PRIMARY KEY (space, key, field)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON entries (used);
"""


class SqliteStore:
    """A `SharedStore` in a file that only its user may read; it is created if it is missing.
    `checked` writes come between two checks of the size."""

    def __init__(
        self, path: str | os.PathLike[str], max_bytes: int = MAX_BYTES, *, checked: int = CHECKED
    ):
        self._checked = checked
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._writes = 0
        self._lock = threading.Lock()
        with self._failures(is_opening=True):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            os.close(descriptor)
            self._base = sqlite3.connect(
                self._path, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None
            )
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = NORMAL")
            self._base.executescript(_TABLE)
            if not has_tables(self._base, _TABLE):
                raise sqlite3.DatabaseError("it is the database of another program")

    def read(self, space: str, key: str) -> dict[str, bytes]:
        with self._lock, self._failures():
            found = self._base.execute(
                "SELECT field, value FROM entries WHERE space = ? AND key = ? ORDER BY used",
                (space, key),
            )
            return dict(found.fetchall())

    def exists(self, space: str, key: str) -> bool:
        with self._lock, self._failures():
            found = self._base.execute(
                "SELECT 1 FROM entries WHERE space = ? AND key = ? LIMIT 1", (space, key)
            )
            return found.fetchone() is not None

    def write(self, *entries: StoreEntry) -> None:
        with self._lock, self._failures(), self._transaction():
            self._insert(entries)

    def _insert(self, entries: Sequence[StoreEntry]) -> None:
        rows: list[tuple[str, str, str, bytes, int, float]] = []
        for entry in entries:
            texts = len(entry.space) + len(entry.key) + len(entry.field)
            size = OVERHEAD + texts + len(entry.value)
            now = time.time()
            rows.append((entry.space, entry.key, entry.field, entry.value, size, now))
        self._base.executemany("REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
        done = self._writes + len(rows)
        is_due = self._writes // self._checked != done // self._checked
        if is_due or not self._writes:
            self._make_room()
        self._writes = done

    def _make_room(self) -> None:
        (size,) = self._base.execute("SELECT coalesce(sum(size), 0) FROM entries").fetchone()
        while size > self._max_bytes:
            oldest = self._base.execute(
                "SELECT space, key, field, size FROM entries ORDER BY used LIMIT ?", (CHECKED,)
            ).fetchall()
            for space, key, field, freed in oldest:
                if size <= self._max_bytes:
                    break
                self._base.execute(
                    "DELETE FROM entries WHERE space = ? AND key = ? AND field = ?",
                    (space, key, field),
                )
                size -= freed

    def delete(self, space: str, key: str) -> bool:
        with self._lock, self._failures():
            done = self._base.execute(
                "DELETE FROM entries WHERE space = ? AND key = ?", (space, key)
            )
            return done.rowcount > 0

    def close(self) -> None:
        self._base.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    @contextmanager
    def _failures(self, *, is_opening: bool = False) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise explain_failure(str(self._path), error, is_opening=is_opening) from error
