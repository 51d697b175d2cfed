"""Starts turns in other threads, waits for their results, and streams their events."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, ref

from pydantic_core import from_json

from constrained.decode.filters.events import StreamEvent
from constrained.errors import AbandonedError
from constrained.limits.deadline import Clock, Deadline
from grammars.schema.json_values import Json
from grammars.turn import ArgumentsDelta, CallOpened, CallRead

S = TypeVar("S")
T = TypeVar("T")
Sink: TypeAlias = Callable[[Sequence[StreamEvent]], None]
Wanted: TypeAlias = Callable[[], bool]
"""Returns True while a caller still wants the work."""
Start: TypeAlias = Callable[[Wanted, Sink], Future[T]]
"""Starts a turn: takes a function that says if it is still wanted, and one that takes events."""


def check_demand(is_wanted: Wanted, deadline: Deadline | None, clock: Clock) -> None:
    """Raises an error if a request that is not decoded yet has to end.

    Raises:
        AbandonedError: its caller has gone.
        DeadlineError: its deadline is over.
    """
    if not is_wanted():
        raise AbandonedError("nobody waits for it")
    if deadline and deadline.is_over(clock()):
        raise deadline.fail_compiling()


def resolve(future: Future[Any], action: Callable[[], None]) -> None:
    """Calls an action that sets the result of a future; an error of it becomes the result. The
    result stays as it is if the future has one: its time was over."""
    try:
        action()
    except BaseException as error:
        with suppress(InvalidStateError):
            future.set_exception(error)


def forward(inner: Future[S], outer: Future[Any], take: Callable[[S], None]) -> None:
    """Gives the result of a future to a function that sets the result of another one."""
    inner.add_done_callback(lambda done: resolve(outer, lambda: take(done.result())))


def then(inner: Future[S], make: Callable[[S], T]) -> Future[T]:
    """Returns a future of `make(result)`, with the result of another future."""
    outer = Future[T]()
    outer.set_running_or_notify_cancel()
    forward(inner, outer, lambda result: outer.set_result(make(result)))
    return outer


def then_start(inner: Future[S], start: Callable[[S], Future[T]]) -> Future[T]:
    """Like `then`, for a function that returns a future of its result."""
    outer = Future[T]()
    outer.set_running_or_notify_cancel()
    forward(inner, outer, lambda result: forward(start(result), outer, outer.set_result))
    return outer


def run(start: Callable[[Wanted], Future[T]]) -> T:
    """Starts work and waits for its result; an interrupt, such as Ctrl-C, cancels the work."""
    cancelled = threading.Event()
    future = start(lambda: not cancelled.is_set())
    try:
        return future.result()
    except BaseException:  # above all KeyboardInterrupt
        cancelled.set()
        future.cancel()
        raise


async def arun(start: Callable[[Wanted], Future[T]]) -> T:
    """Does what `run` does, for asyncio; cancelling the task cancels the work."""
    cancelled = threading.Event()
    return await wait(start(lambda: not cancelled.is_set()), cancelled.set)


class _TurnStream:
    """Collects the arguments of the calls of a running turn, and can cancel the turn."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._texts: dict[int, list[str]] = {}  # pieces of the arguments as JSON, by call
        self._whole: dict[int, dict[str, Json]] = {}

    def _note(self, event: StreamEvent) -> None:
        match event:
            case CallOpened(index):
                self._texts[index] = []
            case ArgumentsDelta(index, text):
                self._texts[index].append(text)
            case CallRead(index, call):
                self._whole[index] = call.arguments
            case _:
                pass

    def arguments(self, index: int) -> dict[str, Json]:
        """Returns the arguments of the call with this index in the turn, from 0, as far as they
        have arrived: parsed, by name; the last one may be incomplete."""
        if index in self._whole:
            return self._whole[index]
        text = "".join(self._texts.get(index, ()))
        return from_json(text, allow_partial="trailing-strings") if text else {}

    def cancel(self) -> None:
        """Cancels the turn; does nothing if it has ended."""
        self._cancelled.set()

    def _is_wanted(self) -> bool:
        return not self._cancelled.is_set()


class Stream(_TurnStream, Generic[T]):
    """The events of a turn while it is generated; iterate over it.

    With `logprobs`, there is a `TokenDrawn` for each token, before the events of that token.
    Leaving the loop early cancels the turn, as `cancel` does. `arguments(index)` returns the
    arguments of a call as far as they have arrived.
    """

    def __init__(self, start: Start[T]):
        self._queue: SimpleQueue[StreamEvent | None] = SimpleQueue()
        super().__init__()
        self._future = start(self._is_wanted, self._put)
        self._future.add_done_callback(lambda _: self._queue.put(None))

    def _put(self, events: Sequence[StreamEvent]) -> None:
        for event in events:
            self._queue.put(event)

    def __iter__(self) -> Iterator[StreamEvent]:
        try:
            while (event := self._queue.get()) is not None:
                self._note(event)
                yield event
            self._queue.put(None)  # ends another iteration, too
            self._future.result()  # raises the error of the turn
        finally:
            self.cancel()

    @property
    def result(self) -> T:
        """The reply. Waits until the turn has ended; raises its error if it failed."""
        return self._future.result()


class _Outbox:
    """Calls functions in an event loop, for other threads.

    The loop is woken once for all calls that wait: one step of eight turns makes eight of them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = ref(loop)  # `_outboxes` must not keep it alive
        self._lock = threading.Lock()  # protects `_posted` and `_is_due`
        self._posted: list[Callable[[], None]] = []
        self._is_due = False

    def post(self, action: Callable[[], None]) -> None:
        """Queues a call, after those posted before; does nothing if the loop is closed."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            return
        with self._lock:
            self._posted.append(action)
            is_awake, self._is_due = self._is_due, True
        if not is_awake:  # without the lock: the loop takes it as soon as it wakes up
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            posted, self._posted = self._posted, []
            self._is_due = False
        for action in posted:
            try:
                action()
            except Exception as error:  # the other calls are for other requests
                loop = asyncio.get_running_loop()
                loop.call_exception_handler({"message": "what a thread posted", "exception": error})


_outboxes = WeakKeyDictionary[asyncio.AbstractEventLoop, _Outbox]()


def _find_outbox(loop: asyncio.AbstractEventLoop) -> _Outbox:
    """Returns the outbox of a loop; the caller runs in that loop."""
    if loop not in _outboxes:
        _outboxes[loop] = _Outbox(loop)
    return _outboxes[loop]


class AsyncStream(_TurnStream, Generic[T]):
    """Like `Stream`, for `async for`; `await stream.result()` returns the reply."""

    def __init__(self, start: Start[T]):
        self._outbox = outbox = _find_outbox(asyncio.get_running_loop())
        self._queue: asyncio.Queue[Sequence[StreamEvent] | None] = asyncio.Queue()
        super().__init__()

        def put(events: Sequence[StreamEvent] | None) -> None:
            outbox.post(partial(self._queue.put_nowait, events))

        self._future = start(self._is_wanted, put)
        self._future.add_done_callback(lambda _: put(None))

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        try:
            while (events := await self._queue.get()) is not None:
                for event in events:
                    self._note(event)
                    yield event
            self._queue.put_nowait(None)  # ends another iteration, too
            self._future.result()
        finally:
            self.cancel()

    async def batches(self) -> AsyncGenerator[list[StreamEvent], None]:
        """Yields lists of events: each has all events that have arrived since the last one."""
        try:
            while (events := await self._queue.get()) is not None:
                batch = [*events]
                is_over = False
                while not self._queue.empty() and not is_over:
                    more = self._queue.get_nowait()
                    is_over = more is None
                    batch += more or ()
                yield batch
                if is_over:
                    break
            self._queue.put_nowait(None)
            self._future.result()
        finally:
            self.cancel()

    def when_over(self, note: Callable[[Future[T]], None]) -> None:
        """Calls a function in the event loop when the turn has ended.

        Args:
            note: takes the finished future of the reply, which may have an error.
        """
        self._future.add_done_callback(lambda done: self._outbox.post(partial(note, done)))

    async def result(self) -> T:
        """Returns the reply. Waits until the turn has ended; raises its error if it failed.
        Cancelling the task cancels the turn."""
        return await wait(self._future, self.cancel)


async def wait(future: Future[T], cancel: Callable[[], None]) -> T:
    """Awaits a future of another thread; calls `cancel` if the waiting task is cancelled."""
    try:
        # No `asyncio.shield`: if the task is cancelled, nobody reads an error that the work ends
        # with, and asyncio would log its traceback.
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        cancel()
        future.cancel()
        raise
