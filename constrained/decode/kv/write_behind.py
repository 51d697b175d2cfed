"""Writes snapshot files in a background thread, so that decoding does not wait for the disk."""

import threading
from collections.abc import Callable, Sequence

from constrained.decode.kv.snapshots import Files, Outline, Snapshot
from constrained.decode.metrics import Amount


class WriteBehind:
    """A queue of writes in front of snapshot files; readers see the files as if all were done.

    One thread calls the methods. A background thread does the writes in their order; only this
    thread changes the files. It ends when the queue is empty.

    Args:
        files: keep the snapshots.
        room: the maximum bytes of waiting snapshots. If more are waiting, `write` blocks.
        note: is called with each error, in the background thread.
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
        """The amount in files that are already written; any thread may read it."""
        return self._files.amount

    def admits(self, size: int) -> bool:
        """Returns whether a snapshot of this size in bytes can be kept."""
        return self._files.admits(size)

    def outlines(self) -> Sequence[Outline]:
        """Returns the outlines of the snapshots that can be read, waiting ones included."""
        tasks = self._waiting()
        found = [outline for outline in self._files.outlines() if outline.key not in tasks]
        for snapshot in tasks.values():
            if snapshot:
                found.append(snapshot.outline)
        return found

    def read(self, key: str) -> Snapshot:
        """Returns a snapshot that waits, or reads it from its file.

        Raises:
            DamagedError: it is deleted, or cannot be read.
        """
        return self._waiting().get(key) or self._files.read(key)

    def write(self, snapshot: Snapshot) -> None:
        """Queues a snapshot to be written; blocks while too many bytes are waiting."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(snapshot.size))
            self._add(snapshot.outline.key, snapshot)

    def drop(self, key: str) -> None:
        """Queues the deletion of the snapshot with this key, if there is one."""
        if any(outline.key == key for outline in self.outlines()):
            with self._changed:
                self._add(key, None)

    def wait(self) -> None:
        """Blocks until the queue is empty."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_working)

    def _waiting(self) -> dict[str, Snapshot | None]:
        """Returns the last task of each key: the snapshot to write, or None to delete it."""
        with self._changed:
            return dict(self._tasks)

    def _has_room(self, size: int) -> bool:
        waiting = sum(snapshot.size for _, snapshot in self._tasks if snapshot)
        return waiting == 0 or waiting + size <= self._room

    def _add(self, key: str, task: Snapshot | None) -> None:
        """Adds a task. It replaces a waiting write of the same key."""
        kept = self._tasks[:1]  # in progress
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
                # The task stays in the list until it is done: `read` has to find its snapshot.
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
        except Exception as error:  # if this thread died, `wait` and `write` would block forever
            self._note(error)
