"""Keeps the pauses of Python's garbage collector short.

A full collection examines all objects of the process while it holds the interpreter lock: 170 ms
for the two million objects that large schemas leave in the caches. So objects that survive one are
frozen (`gc.freeze`), and the next one examines only newer objects. Almost all objects, frozen or
not, are freed by their reference counts. Those in reference cycles are not; for them, all objects
are examined again when no request is running, or after very many collections.
"""

import gc
import threading
from collections.abc import Callable, Mapping
from typing import Any

COLLECTED = (2_000, 10, 4)
"""The thresholds of `gc.set_threshold`: new objects, then collections of the younger generation. A
full collection examines 80,000 objects, which takes 10 to 40 ms."""
MANY = 16
"""Full collections after which all objects are examined, if no request is running."""
TOO_MANY = 150
"""Full collections after which all objects are examined in any case; 12 million objects."""
SECONDS = 30.0  # between two checks whether a request is running
OLDEST = 2


class ShortCollections:
    """Keeps full collections short in this process, until `stop`."""

    def __init__(self):
        self._collections = 0  # full collections since all objects were examined
        self._before = gc.get_threshold()
        self._is_over = threading.Event()

    def start(self) -> None:
        """Sets the thresholds, and freezes survivors from now on."""
        gc.set_threshold(*COLLECTED)
        gc.callbacks.append(self._put_aside)

    def stop(self) -> None:
        """Restores the collector, and ends the thread of `keep_looking`."""
        self._is_over.set()
        gc.callbacks.remove(self._put_aside)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def keep_looking(self, is_idle: Callable[[], bool]) -> None:
        """Examines all objects from time to time, in a separate thread.

        Args:
            is_idle: returns whether no request is running.
        """

        def watch() -> None:
            while not self._is_over.wait(SECONDS):
                self.look_at_all(is_idle=is_idle())

        threading.Thread(target=watch, name="collector", daemon=True).start()

    def look_at_all(self, *, is_idle: bool) -> bool:
        """Collects garbage among all objects, including frozen ones, if it is time.

        Args:
            is_idle: no request is running.

        Returns:
            True if it was time.
        """
        is_time = self._collections >= (MANY if is_idle else TOO_MANY)
        if is_time:
            gc.unfreeze()
            collect_all()  # which freezes the survivors
            self._collections = 0
        return is_time

    def _put_aside(self, phase: str, information: Mapping[str, Any]) -> None:
        if phase == "stop" and information["generation"] == OLDEST:
            self._collections += 1
            gc.freeze()


def collect_all() -> None:
    """Collects garbage among all objects that are not frozen, without delaying the next full
    collection.

    CPython up to 3.13 delays a full collection until the new objects are a quarter of those that
    survived the last one. These are frozen by now, so the next one would examine very many objects.
    After a second collection that examines nearly none, a quarter are few. Python 3.14 has no such
    rule; there, the second collection has nothing to do.
    """
    gc.collect()
    gc.collect()
