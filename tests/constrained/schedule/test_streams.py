"""What threads tell an event loop."""

import threading
from collections.abc import Callable
from typing import Any, cast

from constrained.schedule.streams import _Outbox


class Loop:
    """Does in a thread of its own, at once, what it is told to do soon."""

    def __init__(self) -> None:
        self.wakes = 0
        self.has_hung = False

    def is_closed(self) -> bool:
        return False

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        self.wakes += 1
        thread = threading.Thread(target=callback, daemon=True)
        thread.start()
        thread.join(5)
        self.has_hung |= thread.is_alive()


def test_a_loop_that_wakes_up_finds_the_lock_free() -> None:
    """Else each token would cost it another wait."""
    loop = Loop()
    outbox = _Outbox(cast(Any, loop))
    done = list[int]()
    for number in range(3):
        outbox.post(lambda number=number: done.append(number))
    assert not loop.has_hung
    assert done == [0, 1, 2]
    assert loop.wakes == 3
