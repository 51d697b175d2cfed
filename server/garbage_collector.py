"""Python's garbage collector, held to short pauses.

A full collection looks at all objects of the process while it holds the interpreter lock: 170 ms
for the two million objects that large schemas leave in the caches. So what has survived one is put
aside (`gc.freeze`), and the next one looks at newer objects alone. Almost all objects are freed by
their reference counts, put aside or not. Only those in circles are not: some thousand with each
full collection, those of the requests that run then. So all are looked at again when nobody waits,
or when very many have been put aside.
"""

import gc
import threading
from collections.abc import Callable, Mapping
from typing import Any

COLLECTED = (2_000, 10, 4)
"""The thresholds of `gc.set_threshold`: a full collection then looks at some 120,000 new objects,
which takes 10 to 60 ms."""
MAX_SEEN = 130_000
"""At most so many objects are put aside by a full collection: 122,061 with CPython 3.11."""
MANY = 200_000
"""Objects that are put aside until all are looked at, if nobody waits; some 30 MB."""
TOO_MANY = 1_000_000
"""Objects that are put aside until all are looked at in any case."""
SHARE = 4
"""Where very many were left by the last look, it takes a quarter as many: each look takes longer
then."""
SECONDS = 30.0  # between two looks at whether somebody waits
OLDEST = 2


class ShortCollections:
    """Makes full collections short in this process, until it is stopped."""

    def __init__(self):
        self._left = 0  # objects when all were looked at
        self._added = 0  # objects put aside since then, when they were last counted
        self._collections = 0  # full ones since they were counted
        self._before = gc.get_threshold()
        self._is_over = threading.Event()

    def start(self) -> None:
        """Begins with what is there now."""
        gc.freeze()
        self._left = gc.get_freeze_count()
        gc.set_threshold(*COLLECTED)
        gc.callbacks.append(self._put_aside)

    def stop(self) -> None:
        """Leaves the collector as it was, and ends the thread of `keep_looking`."""
        self._is_over.set()
        gc.callbacks.remove(self._put_aside)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def keep_looking(self, is_idle: Callable[[], bool]) -> None:
        """Looks at all objects now and then, in a thread of its own.

        Args:
            is_idle: says whether nobody waits for the process.
        """

        def watch() -> None:
            while not self._is_over.wait(SECONDS):
                self.look_at_all(is_idle=is_idle())

        threading.Thread(target=watch, name="collector", daemon=True).start()

    def look_at_all(self, *, is_idle: bool) -> bool:
        """Collects among all objects, also those that were put aside, if it is time.

        Args:
            is_idle: nobody waits for the process.

        Returns:
            Whether it was time.
        """
        limit = MANY if is_idle else max(TOO_MANY, self._left // SHARE)
        # To count them holds the interpreter lock, for 25 ms if they are a million.
        if self._added + self._collections * MAX_SEEN < limit:
            return False
        count = gc.get_freeze_count()
        self._left = min(self._left, count)  # some were freed, such as the schemas of a cache
        self._added = count - self._left
        self._collections = 0
        if self._added < limit:
            return False
        gc.unfreeze()
        collect_all()  # which puts aside what is left
        self._left = gc.get_freeze_count()
        self._added = self._collections = 0
        return True

    def _put_aside(self, phase: str, information: Mapping[str, Any]) -> None:
        if phase == "stop" and information["generation"] == OLDEST:
            self._collections += 1
            gc.freeze()


def collect_all() -> None:
    """Collects among all objects that are not put aside, and lets the next full collection come as
    early as usual.

    CPython up to 3.13 puts a full collection off until the new objects are a quarter of those that
    the last one has left. Those were put aside since, and the next one would see very many. After
    one that sees nearly none, few are a quarter. Python 3.14 has no such rule; there, the second
    one has nothing to do.
    """
    gc.collect()
    gc.collect()
