"""The thread that owns an engine and runs the requests of all other threads."""

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol, runtime_checkable

from constrained.decode.metrics import Metrics
from constrained.decode.request import Generation, Request
from constrained.decode.schedule.admission import Seat
from constrained.decode.schedule.scheduler import Schedule
from constrained.decode.schedule.workers import check_home
from constrained.engine.options import MAX_WAITING
from constrained.engine.protocol import ModelEngine
from constrained.errors import BusyError, ModelError
from constrained.limits.deadline import Clock, Deadline


class TurnRunner(Protocol):
    """Generates turns that other threads submit."""

    @property
    def metrics(self) -> Metrics:
        """The figures of running requests and of the KV cache."""
        ...

    def submit(self, request: Request) -> Future[Generation]:
        """Queues a request. Its `is_wanted` is how to cancel it.

        Raises:
            ModelError: the runner is closed, or one of another process.
            BusyError: too many requests are waiting.
            RequestError: the engine does not support what it asks for.
        """
        ...

    def drain(self, end: Deadline) -> None:
        """Lets requests run until a deadline; those that are not done by then fail."""
        ...

    def close(self) -> None:
        """Waits for all requests and ends the thread. A second call does nothing."""
        ...


@runtime_checkable
class TurnEngine(ModelEngine, Protocol):
    """An engine that runs whole turns, and samples their tokens itself, on another machine for
    example."""

    def make_runner(self, *, clock: Clock, max_waiting: int) -> TurnRunner:
        """Makes what runs the turns."""
        ...


class Runner(TurnRunner):
    """Runs the requests of a schedule in a thread of its own."""

    def __init__(self, schedule: Schedule, name: str, *, max_waiting: int = MAX_WAITING):
        self._schedule = schedule
        self._max_waiting = max_waiting
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._home = os.getpid()
        self._lock = threading.Lock()  # protects `_arrived` and `_is_running`
        self._arrived: list[Seat] = []
        self._is_running = False
        self._is_closed = False

    @property
    def metrics(self) -> Metrics:
        known = self._schedule.metrics
        return replace(known, waiting=known.waiting + len(self._arrived))

    def submit(self, request: Request) -> Future[Generation]:
        check_home(self._home)
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
            except Exception as error:  # a bug of ours; otherwise callers would wait forever
                self._schedule.clear(error)

    def _has_work(self) -> bool:
        with self._lock:
            for seat in self._arrived:
                self._schedule.add(seat)
            self._arrived.clear()
            self._is_running = not self._schedule.is_idle
            return self._is_running

    def drain(self, end: Deadline) -> None:
        self._schedule.end = end

    def close(self) -> None:
        self._pool.shutdown()
        if not self._is_closed:
            self._is_closed = True
            try:
                self._schedule.save()
            finally:
                self._schedule.clear(ModelError("the model is closed"))
