"""What is done while another device decodes: callers are told what was written, and the masks of
the next tokens are computed.

llama.cpp releases the interpreter lock during a decode. If the model runs on the CPU, it uses all
cores, and a second thread gains nothing: then callers are told at once, and a mask is computed when
it is needed.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

from constrained.decode.filters.events import StreamEvent
from constrained.decode.schedule.active_turn import ActiveTurn
from constrained.decode.schedule.admission import Seat
from constrained.decode.schedule.streams import Sink
from constrained.errors import GrammarError


class DecodeOverlap:
    """A thread that works while the model decodes."""

    def __init__(self, is_on: bool):
        self._is_on = is_on
        self._posted = deque[Callable[[], None]]()
        self._pool: ThreadPoolExecutor | None = None

    def find_sink(self, seat: Seat) -> Sink:
        """Returns what takes the events of a request: its sink, or one that passes them on to it
        during the next decode."""
        if not self._is_on:
            return seat.request.sink

        def pass_on(events: Sequence[StreamEvent]) -> None:
            if not seat.result.done():
                try:
                    seat.request.sink(events)
                except Exception as error:
                    seat.fail(error)

        def sink(events: Sequence[StreamEvent]) -> None:
            if seat.result.done():
                seat.result.result()  # raises the error of the request's sink
            self.post(partial(pass_on, events))

        return sink

    def post(self, action: Callable[[], None]) -> None:
        """Does something during the next decode, in the order of the calls; or at once."""
        if self._is_on:
            self._posted.append(action)
        else:
            action()

    def deliver(self) -> None:
        """Does what was posted: no decode follows soon."""
        while self._posted:
            self._posted.popleft()()

    @contextmanager
    def working(self, turns: Collection[ActiveTurn]) -> Iterator[None]:
        """Works while the body runs, and waits for both."""
        if not self._is_on:
            yield
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="overlap")
        done = self._pool.submit(self._work, turns)
        try:
            yield
        finally:
            done.result()

    def _work(self, turns: Collection[ActiveTurn]) -> None:
        self.deliver()
        for active in turns:
            matcher = active.decoder.turn.matcher
            if matcher is not None:
                # A matcher that has failed raises the error again when its turn needs the mask.
                with active.share, suppress(GrammarError):
                    matcher.compute_mask()

    def close(self) -> None:
        """Ends the thread. The object can still be used; it starts another one."""
        self.deliver()
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None
