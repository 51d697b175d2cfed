"""What threads tell an event loop."""

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

from constrained.schedule.streams import _Outbox, wait


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


def test_nobody_reports_the_error_of_work_that_was_left() -> None:
    reports = list[Any]()

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.append(context))
        future = Future[None]()
        assert future.set_running_or_notify_cancel()  # it cannot be cancelled any more
        task = asyncio.create_task(wait(future, lambda: None))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        future.set_exception(ValueError("left"))
        for _ in range(3):
            await asyncio.sleep(0)  # the loop takes the error over, and calls back

    asyncio.run(leave())
    gc.collect()
    assert reports == []
