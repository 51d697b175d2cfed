"""What threads tell an event loop."""

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

from constrained.decode.schedule.streams import _Outbox, wait
from constrained.errors import AbandonedError


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


def test_an_error_after_its_caller_has_gone_is_not_logged() -> None:
    """Each client that leaves while its request is compiled would write a traceback."""
    logged = list[dict[str, Any]]()

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: logged.append(context))
        work = Future[int]()
        work.set_running_or_notify_cancel()
        cancelled = threading.Event()
        waiting = asyncio.create_task(wait(work, cancelled.set))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert cancelled.is_set()
        work.set_exception(AbandonedError("nobody waits for it"))
        await asyncio.sleep(0)
        del waiting, work
        gc.collect()

    asyncio.run(leave())
    assert logged == []
