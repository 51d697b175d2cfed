"""The threads that compile requests, so that slow work of one client does not block the others.

Compiling is mostly Python, so more threads do not make it faster. But they keep it fair: one thread
takes only work that is known to be quick, and no client gets all the others, nor all of them: the
prompt of a long conversation takes long even if its grammar is known. Work ends itself: it checks
now and then whether anybody still waits for it (`grammars.limits.steps`). Whoever waits for it is
told that its time is over even while it does not check, as in a long call into a library.
"""

import os
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from constrained.decode.schedule.streams import forward, resolve
from constrained.errors import BusyError, ModelError
from grammars.limits.steps import stop_when

T = TypeVar("T")
THREADS = 2  # for unknown work
LOOK_SECONDS = 0.2  # between two looks whether the time of work is over
CLOSE_SECONDS = 0.5  # for work to end when its workers are closed


def check_home(process: int) -> None:
    """Refuses work in a process that is not the one with this id, but was forked from it: it has no
    threads but the one that has called fork, so nobody would do the work. Call it before taking a
    lock, which a thread that is not here may hold.

    Raises:
        ModelError: this is another process.
    """
    if os.getpid() != process:
        hint = "Load a model in each process, or start processes by multiprocessing's spawn"
        raise ModelError("the model was loaded before this process was forked", hint=hint)


def _go_on() -> None:
    """A check that never ends the work."""


@dataclass(frozen=True)
class Order:
    """How workers treat a piece of work.

    Args:
        client: whose work it is; clients take turns.
        is_known: the work is quick, since its results are cached.
        check: raises an error to end the work, waiting or running. It is called often, in any
            thread. The error is the result also of work that does not end then.
        is_bounded: the work is refused if too much is waiting.
    """

    client: Hashable = None
    is_known: bool = False
    check: Callable[[], None] = _go_on
    is_bounded: bool = True


DEFAULT_ORDER = Order()


@dataclass(frozen=True, eq=False)
class _Item:
    """A piece of work with its result."""

    work: Callable[[], Any]
    order: Order
    result: Future[Any] = field(default_factory=Future[Any])


class _Queue:
    """Waiting work: clients take turns, and the work of each client keeps its order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[_Item]] = OrderedDict()

    def add(self, item: _Item) -> None:
        self._waiting.setdefault(item.order.client, deque()).append(item)

    def take(self, is_allowed: Callable[[Hashable], bool]) -> _Item | None:
        """Removes and returns the next item of an allowed client; None if there is none."""
        for client, items in self._waiting.items():
            if is_allowed(client):
                item = items.popleft()
                if items:
                    self._waiting.move_to_end(client)
                else:
                    del self._waiting[client]
                return item
        return None

    def remove(self, item: _Item) -> bool:
        items = self._waiting.get(item.order.client, deque[_Item]())
        if item not in items:
            return False
        items.remove(item)
        if not items:
            del self._waiting[item.order.client]
        return True


class Workers:
    """Threads that run work; the work of one client begins in the order of submission.

    Args:
        max_waiting: the maximum number of waiting pieces of work, besides one that runs; None: no
            maximum.
        threads: for unknown work, besides the one for known work. One client uses all but one of
            them, and all but one of all; with one thread, this one.
    """

    def __init__(self, name: str, max_waiting: int | None = None, *, threads: int = THREADS):
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._reserved = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-known")
        self._max_unknown = max(1, threads - 1)  # for a client
        self._max_per_client = threads
        self._max_waiting = max_waiting
        self._home = os.getpid()
        self._lock = threading.Lock()  # protects the attributes below
        self._known = _Queue()
        self._unknown = _Queue()
        self._running: list[_Item] = []
        self._unfinished = set[_Item]()
        self._is_watched = False

    def submit(self, work: Callable[[], T], order: Order = DEFAULT_ORDER) -> Future[T]:
        """Queues work, and returns the future of its result.

        Raises:
            ModelError: the workers are closed, or those of another process.
            BusyError: too much work is waiting.
        """
        check_home(self._home)
        item = _Item(work, order)
        with self._lock:
            max_waiting = self._max_waiting if order.is_bounded else None
            if max_waiting is not None and len(self._unfinished) > max_waiting:
                message = f"{max_waiting} requests are waiting already"
                raise BusyError(message, hint="Try again later")
            self._unfinished.add(item)
            (self._known if order.is_known else self._unknown).add(item)
            is_watched, self._is_watched = self._is_watched, True
        try:
            # The pool does not get this item: its thread takes the next one from the queues.
            self._pool.submit(self._run)
            if order.is_known:
                self._reserved.submit(self._run, is_reserved=True)
        except RuntimeError as e:
            self._withdraw(item)
            raise ModelError("the model is closed") from e
        finally:
            if not is_watched:
                threading.Thread(target=self._watch, name="deadlines", daemon=True).start()
        item.result.add_done_callback(lambda done: self._withdraw(item))
        return item.result

    def start(self, work: Callable[[], Future[T]], order: Order = DEFAULT_ORDER) -> Future[T]:
        """Queues work that returns a future, and returns a future with the same result."""
        outer = Future[T]()

        def run() -> None:
            if outer.set_running_or_notify_cancel():
                resolve(outer, lambda: forward(work(), outer, outer.set_result))

        queued = self.submit(run, order)

        def cancel_queued(done: Future[T]) -> None:
            if done.cancelled():
                queued.cancel()

        def fail_queued(done: Future[None]) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None:
                _settle(outer.set_exception, error)

        outer.add_done_callback(cancel_queued)
        queued.add_done_callback(fail_queued)
        return outer

    def _withdraw(self, item: _Item) -> bool:
        """Removes work from its queue; False if it has already begun."""
        with self._lock:
            is_waiting = self._known.remove(item) or self._unknown.remove(item)
            if is_waiting:
                self._unfinished.discard(item)
            return is_waiting

    def _run(self, *, is_reserved: bool = False) -> None:
        """Does work until this thread finds no more that it may take.

        Args:
            is_reserved: this thread does only known work.
        """
        while (item := self._take(is_reserved=is_reserved)) is not None:
            self._do(item)
            if is_reserved:
                with suppress(RuntimeError):  # the workers are closed
                    self._pool.submit(self._run)  # its client may now have unknown work done

    def _take(self, *, is_reserved: bool) -> _Item | None:
        """Removes the next item that may run from its queue; None if there is none."""
        with self._lock:
            running = Counter(item.order.client for item in self._running)
            unknown = Counter(
                item.order.client for item in self._running if not item.order.is_known
            )

            def may_run(client: Hashable) -> bool:
                return running[client] < self._max_per_client

            def may_run_unknown(client: Hashable) -> bool:
                return unknown[client] < self._max_unknown and may_run(client)

            item = self._known.take(may_run)
            if item is None and not is_reserved:
                item = self._unknown.take(may_run_unknown)
            if item is not None:
                self._running.append(item)
            return item

    def _do(self, item: _Item) -> None:
        try:
            if not item.result.set_running_or_notify_cancel():
                self._leave(item)
                return
            try:
                with stop_when(item.order.check):
                    item.order.check()
                    made = item.work()
            finally:  # before the result is set: the caller may submit more work then
                self._leave(item)
        except BaseException as error:
            _settle(item.result.set_exception, error)
        else:
            _settle(item.result.set_result, made)

    def _leave(self, item: _Item) -> None:
        with self._lock:
            self._unfinished.discard(item)
            self._running.remove(item)

    def _watch(self) -> None:
        """Ends late work until there is no work."""
        is_over = False
        while not is_over:
            time.sleep(LOOK_SECONDS)
            self._end_late()
            with self._lock:
                is_over = not self._unfinished
                self._is_watched = not is_over

    def _end_late(self) -> None:
        """Ends work whose check raises an error, for those who wait for it. A thread that is busy
        with it stays so until its next check."""
        with self._lock:
            unfinished = [*self._unfinished]
        for item in unfinished:
            try:
                item.order.check()
            except Exception as error:
                if self._withdraw(item):
                    item.result.set_running_or_notify_cancel()
                if item.result.running():
                    _settle(item.result.set_exception, error)

    def close(self) -> bool:
        """Takes no more work, ends work whose check raises an error, and waits at most
        `CLOSE_SECONDS` for the rest. A second call does nothing.

        Returns:
            False if a thread is still busy.
        """
        for pool in (self._pool, self._reserved):
            pool.shutdown(wait=False)
        self._end_late()
        last = time.monotonic() + CLOSE_SECONDS
        while self._unfinished and time.monotonic() < last:
            time.sleep(CLOSE_SECONDS / 100)
        return not self._unfinished

    def wait(self) -> None:
        """Waits for the threads, after `close`."""
        self._pool.shutdown()
        self._reserved.shutdown()


def _settle(settle: Callable[[T], None], result: T) -> None:
    """Gives a future its result, unless whoever waits for it was told that its time is over."""
    with suppress(InvalidStateError):
        settle(result)
