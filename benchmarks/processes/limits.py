"""A function in other processes, with a limit for each of its calls: what takes longer is killed,
for no signal ends native code that is busy."""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import local
from typing import Any

_CONTEXT = get_context("spawn")


class Limited:
    """Calls `work`, a function of a module, on many values.

    Args:
        work: the function; values and results have to be picklable.
        seconds: the limit for one call; inf: none.
        jobs: so many processes at a time.
    """

    def __init__(self, work: Callable[[Any], Any], seconds: float, jobs: int):
        self._work = work
        self._seconds = seconds
        self._jobs = jobs
        self._own = local()

    def map(self, values: Iterable[Any]) -> Iterator[Any]:
        """Yields the results in order; the exception where there was one; None where the limit is
        exceeded or the process has died."""
        with ThreadPoolExecutor(self._jobs) as threads:
            yield from threads.map(self._call, values)

    def _call(self, value: Any) -> Any:
        if getattr(self._own, "process", None) is None:
            self._start()
        self._own.pipe.send(value)
        try:
            if self._own.pipe.poll(None if math.isinf(self._seconds) else self._seconds):
                return self._own.pipe.recv()
        except EOFError:
            pass
        self._own.process.kill()
        self._own.process = None
        return None

    def _start(self) -> None:
        self._own.pipe, theirs = _CONTEXT.Pipe()
        self._own.process = _CONTEXT.Process(target=_serve, args=(self._work, theirs), daemon=True)
        self._own.process.start()
        theirs.close()
        self._own.pipe.send(None)  # the first result tells that all is imported
        self._own.pipe.recv()


def _serve(work: Callable[[Any], Any], pipe: Connection) -> None:
    while True:
        try:
            value = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(None if value is None else work(value))
        except Exception as e:  # a defect is a result, too: it must not look like a slow call
            pipe.send(e)
