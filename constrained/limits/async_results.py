"""Awaits the results of async functions and generators."""

import contextvars
import inspect
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def as_awaitable(result: Any) -> Any:
    """Returns a coroutine that collects the items of an async generator in a list, since pydantic
    does not serialise generators. Returns other values unchanged."""
    if not isinstance(result, AsyncIterator):
        return result

    async def collect() -> list[Any]:
        return [item async for item in result]

    return collect()


def finish(result: Any) -> Any:
    """Returns the result of a function. A coroutine or an async generator is run to its end in a
    new event loop."""
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
    # For example in a notebook: the event loop of this thread is running this code.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, wait()).result()
