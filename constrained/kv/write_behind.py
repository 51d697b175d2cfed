"""Snapshot files that a thread of its own writes, so that decoding does not wait for the disk."""

import threading
from collections.abc import Callable, Sequence

from constrained.kv.snapshots import Files, Outline, Snapshot
from constrained.metrics import Amount


class WriteBehind:
    """Files as they will be once everything is written.

    One thread calls it. Another one, which lives as long as there is something to do, does it in
    the order in which it was asked for, and is the only one that changes the files.

    Args:
        files: that keep the snapshots.
        room: bytes that may wait; who brings more while others wait is kept waiting, too.
        note: takes the errors, in the other thread.
    """

    def __init__(self, files: Files, room: int, note: Callable[[Exception], None]):
        self._files = files
        self._room = room
        self._note = note
        self._changed = threading.Condition()
        self._tasks: list[tuple[str, Snapshot | None]] = []  # None: the file is dropped
        self._is_working = False

    @property
    def amount(self) -> Amount:
        """The snapshots that are in files already; also for other threads."""
        return self._files.amount

    def admits(self, size: int) -> bool:
        """True if a snapshot of so many bytes can be kept."""
        return self._files.admits(size)

    def outlines(self) -> Sequence[Outline]:
        """Those that can be read."""
        tasks = self._waiting()
        found = [outline for outline in self._files.outlines() if outline.key not in tasks]
        for snapshot in tasks.values():
            if snapshot:
                found.append(snapshot.outline)
        return found

    def read(self, key: str) -> Snapshot:
        """The snapshot of an outline; raises OSError or ValueError if it is gone or damaged."""
        return self._waiting().get(key) or self._files.read(key)

    def write(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot; others may go for it."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(snapshot.size))
            self._add(snapshot.outline.key, snapshot)

    def drop(self, key: str) -> None:
        """Removes a snapshot, if there is one."""
        if any(outline.key == key for outline in self.outlines()):
            with self._changed:
                self._add(key, None)

    def wait(self) -> None:
        """Returns when nothing is left to do."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_working)

    def _waiting(self) -> dict[str, Snapshot | None]:
        """The last task of each key: the snapshot to be written, or None where it is dropped."""
        with self._changed:
            return dict(self._tasks)

    def _has_room(self, size: int) -> bool:
        waiting = sum(snapshot.size for _, snapshot in self._tasks if snapshot)
        return waiting == 0 or waiting + size <= self._room

    def _add(self, key: str, task: Snapshot | None) -> None:
        """Adds a task; it replaces a write of the same key, unless that is under way."""
        kept = self._tasks[:1]  # under way
        for other, snapshot in self._tasks[1:]:
            if other != key or snapshot is None:
                kept.append((other, snapshot))
        self._tasks = [*kept, (key, task)]
        if not self._is_working:
            self._is_working = True
            threading.Thread(target=self._work, name="snapshots").start()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._tasks:
                    self._is_working = False
                    self._changed.notify_all()
                    return
                # It stays in the list until it is done, so that `read` still finds it there.
                key, task = self._tasks[0]
            self._do(key, task)
            with self._changed:
                del self._tasks[0]
                self._changed.notify_all()

    def _do(self, key: str, task: Snapshot | None) -> None:
        try:
            if task is None:
                self._files.drop(key)
            else:
                self._files.write(task)
        except Exception as error:  # whatever it is: without this thread, others wait for good
            self._note(error)
