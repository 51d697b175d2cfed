"""What a request waits for when the server ends."""

import asyncio

import pytest

from constrained.errors import ModelError
from server.http import server_end
from server.http.server_end import LATER, ServerEnd, run_until


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
        await run_until(work(), end.wait())

    with pytest.raises(ModelError, match="shuts down"):
        asyncio.run(run())
    assert seen == ["cancelled"]


def test_whoever_comes_after_the_end_hears_of_it_at_once() -> None:
    async def run() -> list[ModelError]:
        end = ServerEnd()
        end.begin(-LATER)
        return [await asyncio.wait_for(end.wait(), 30) for _ in range(2)]

    one, another = asyncio.run(run())
    assert "shuts down" in str(one)
    assert one is not another  # each has an error of its own


@pytest.mark.parametrize("seconds", [(60, -LATER), (-LATER, 60)])
def test_the_earlier_of_two_ends_counts(seconds: tuple[float, float]) -> None:
    async def run() -> ModelError:
        end = ServerEnd()
        waiting = asyncio.ensure_future(end.wait())
        for each in seconds:
            await asyncio.sleep(0)
            end.begin(each)
        return await asyncio.wait_for(waiting, 30)

    assert "shuts down" in str(asyncio.run(run()))


def test_work_that_does_not_let_itself_be_cancelled_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_end, "CANCEL_SECONDS", 0.01)

    async def run() -> None:
        released = asyncio.Event()

        async def work() -> None:
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue

        end = ServerEnd()
        asyncio.get_running_loop().call_soon(end.begin, -LATER)
        with pytest.raises(ModelError, match="shuts down"):
            await asyncio.wait_for(run_until(work(), end.wait()), 30)
        released.set()

    asyncio.run(run())


def test_work_that_is_done_in_time_is_not() -> None:
    async def work() -> int:
        return 1

    async def run() -> int:
        end = ServerEnd()
        end.begin(60)
        return await run_until(work(), end.wait())

    assert asyncio.run(run()) == 1


def test_a_server_that_has_not_begun_can_end() -> None:
    ServerEnd().begin(1)
