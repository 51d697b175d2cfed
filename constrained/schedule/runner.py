"""The thread that owns an engine: requests of all other threads share its steps."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from constrained.deadline import Deadline
from constrained.decode.request import Generation, Request
from constrained.engine.options import MAX_WAITING
from constrained.errors import BusyError, ModelError
from constrained.metrics import Metrics
from constrained.schedule.admission import Seat
from constrained.schedule.scheduler import Schedule


class TurnRunner(Protocol):
    """Carries out turns that threads hand over."""

    @property
    def metrics(self) -> Metrics:
        """The figures of the requests under way and of the KV cache."""
        ...

    def submit(self, request: Request) -> Future[Generation]:
        """Queues a request; its `is_wanted` is the way to end it.

        Raises:
            ModelError: the runner is closed.
            BusyError: too many requests are waiting.
            RequestError: it asks for what the engine cannot do.
        """
        ...

    def drain(self, end: Deadline) -> None:
        """Fails what is not done at the end."""
        ...

    def close(self) -> None:
        """Waits for what is queued; a second time does nothing."""
        ...


class Runner:
    """Runs the requests of a schedule until they are done.

    Args:
        schedule: that nobody else uses.
        name: of the thread. It is there while there is work.
        max_waiting: requests that may wait.
    """

    def __init__(self, schedule: Schedule, name: str, *, max_waiting: int = MAX_WAITING):
        self._schedule = schedule
        self._max_waiting = max_waiting
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._lock = threading.Lock()  # of the two below
        self._arrived: list[Seat] = []
        self._is_running = False
        self._is_closed = False

    @property
    def metrics(self) -> Metrics:
        """The figures of the requests under way and of the KV cache."""
        known = self._schedule.metrics
        return replace(known, waiting=known.waiting + len(self._arrived))

    def submit(self, request: Request) -> Future[Generation]:
        """Queues a request; its `is_wanted` is the way to end it.

        Raises:
            ModelError: the runner is closed.
            BusyError: too many requests are waiting.
        """
        seat = Seat(request)
        with self._lock:
            if len(self._arrived) + self._schedule.waiting >= self._max_waiting:
                message = f"{self._max_waiting} requests are waiting already"
                raise BusyError(message, hint="Try again later")
            if not self._is_running:
                self._begin()
            self._arrived.append(seat)
        return seat.result

    def _begin(self) -> None:
        try:
            self._pool.submit(self._run)
        except RuntimeError as e:
            raise ModelError("the model is closed") from e
        self._is_running = True

    def _run(self) -> None:
        while self._has_work():
            try:
                self._schedule.step()
            except Exception as error:  # a bug of ours: without this, callers would wait for good
                self._schedule.clear(error)

    def _has_work(self) -> bool:
        with self._lock:
            for seat in self._arrived:
                self._schedule.add(seat)
            self._arrived.clear()
            self._is_running = not self._schedule.is_idle
            return self._is_running

    def drain(self, end: Deadline) -> None:
        """Fails what is not done at the end."""
        self._schedule.end = end

    def close(self) -> None:
        """Waits for what is queued, and forgets all tokens; a second time does nothing."""
        self._pool.shutdown()
        if not self._is_closed:
            self._is_closed = True
            try:
                self._schedule.save()
            finally:
                self._schedule.close(ModelError("the model is closed"))
