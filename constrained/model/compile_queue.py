"""The queue of requests that are read and compiled, each client in turn."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from constrained.decode.schedule.streams import Wanted, check_demand
from constrained.decode.schedule.workers import Order, Workers
from constrained.limits.deadline import Clock, Deadline, check_timeout, set_deadline

T = TypeVar("T")


class CompileQueue:
    """The threads of a model that read and compile requests; all are over by `end`."""

    def __init__(self, max_waiting: int, clock: Clock):
        self.workers = Workers("compile", max_waiting)
        self.clock = clock
        self.end: Deadline | None = None

    def prepare(
        self,
        work: Callable[[], T],
        timeout: float | None = None,
        client: Hashable = None,
        *,
        is_known: bool,
    ) -> Callable[[Wanted], Future[T]]:
        """Returns a function that queues work; its `timeout` in seconds runs from now on."""
        check_timeout(timeout)
        deadline = set_deadline(timeout, self.clock)

        def start(is_wanted: Wanted) -> Future[T]:
            order = self.order(client, is_wanted, deadline, is_known=is_known)
            return self.workers.submit(work, order)

        return start

    def order(
        self, client: Hashable, is_wanted: Wanted, deadline: Deadline | None, *, is_known: bool
    ) -> Order:
        return Order(client, is_known=is_known, check=partial(self._check, is_wanted, deadline))

    def _check(self, is_wanted: Wanted, deadline: Deadline | None) -> None:
        check_demand(is_wanted, deadline, self.clock)
        if self.end and self.end.is_over(self.clock()):
            raise self.end.fail_draining()

    def when_idle(self, free: Callable[[], None], *, is_idle: bool) -> None:
        """Frees the model: at once, or when the last thread has ended."""
        if is_idle:
            free()
            return

        def wait() -> None:
            self.workers.wait()
            free()

        threading.Thread(target=wait, daemon=True).start()
