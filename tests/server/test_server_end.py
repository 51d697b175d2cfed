"""What a request waits for when the server ends."""

import asyncio

import pytest

from constrained.errors import ModelError
from server.server_end import LATER, ServerEnd


def test_work_is_cancelled_when_the_server_ends() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async def run() -> None:
        end = ServerEnd()
        asyncio.get_running_loop().call_soon(end.begin, -LATER)
        await end.limit(work())

    with pytest.raises(ModelError, match="shuts down"):
        asyncio.run(run())
    assert seen == ["cancelled"]


def test_work_that_is_done_in_time_is_not() -> None:
    async def work() -> int:
        return 1

    async def run() -> int:
        end = ServerEnd()
        end.begin(60)
        return await end.limit(work())

    assert asyncio.run(run()) == 1


def test_a_server_that_has_not_begun_can_end() -> None:
    ServerEnd().begin(1)
