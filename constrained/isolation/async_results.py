"""Results that async functions and generators have yet to make."""

import contextvars
import inspect
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def as_awaitable(result: Any) -> Any:
    """A list, in the place of an async generator, which pydantic does not write as one; anything
    else as it is."""
    if not isinstance(result, AsyncIterator):
        return result

    async def collect() -> list[Any]:
        return [item async for item in result]

    return collect()


def finish(result: Any) -> Any:
    """What a function has returned; that of an async one, or of an async generator, is run to its
    end in an event loop of its own."""
    result = as_awaitable(result)
    if inspect.isawaitable(result):
        return _wait(result)
    return result


def _wait(result: Awaitable[Any]) -> Any:
    import asyncio  # here, as most processes of isolated calls do not need it

    async def wait() -> Any:
        return await result

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    # In a notebook, say: this thread has a loop already, and it is busy with us.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, wait()).result()
