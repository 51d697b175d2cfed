"""Work that several servers may begin, and that one of them does."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from server.store import shared_work
from server.store.shared_store import StoreEntry
from server.store.shared_work import RESULT, SharedWork
from server.store.sqlite_store import SqliteStore

PATIENCE = 60  # seconds


def lose() -> bytes:
    return b"lost"


def open_works(folder: Path, count: int = 2) -> list[SharedWork]:
    """Servers with a store in common."""
    return [SharedWork(SqliteStore(folder / "shared.db"), "work") for _ in range(count)]


def run(check: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await check

    asyncio.run(bounded())


async def ask(work: SharedWork, does: Callable[[], Awaitable[bytes]], key: str = "key") -> bytes:
    return await work.do(key, does, lost=lose, patience=PATIENCE)


@dataclass
class Job:
    """Work that goes on until it is let go.

    Attributes:
        done: how often it was done.
        error: what it fails with, if it fails.
    """

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    done: int = 0

    async def __call__(self) -> bytes:
        self.begun.set()
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        self.done += 1
        return f"result {self.done}".encode()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_work, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(shared_work, "POLL_SECONDS", 0.01)


def test_it_is_done_once(tmp_path: Path) -> None:
    async def check() -> None:
        job = Job()
        asked = [asyncio.create_task(ask(one, job)) for one in open_works(tmp_path, 5)]
        await job.begun.wait()
        job.may_end.set()
        assert await asyncio.gather(*asked) == [b"result 1"] * 5
        (restarted,) = open_works(tmp_path, 1)
        assert await ask(restarted, job) == b"result 1"
        assert await ask(restarted, job, "another key") == b"result 2"

    run(check())


def test_what_has_failed_is_done_by_who_waits(tmp_path: Path) -> None:
    """Also where the server that fails has said that it is at work."""

    async def check() -> None:
        one, other = open_works(tmp_path)
        failing, job = Job(error=ValueError("no")), Job()
        first = asyncio.create_task(ask(one, failing))
        await failing.begun.wait()
        second = asyncio.create_task(ask(other, job))
        await asyncio.sleep(0.1)
        failing.may_end.set()
        job.may_end.set()
        with pytest.raises(ValueError, match="no"):
            await first
        assert await second == b"result 1"

    run(check())


def test_a_server_that_goes_in_the_middle_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether the work was done, so nobody does it again."""
    monkeypatch.setattr(shared_work, "SILENT_SECONDS", 0.1)

    async def check() -> None:
        one, other = open_works(tmp_path)
        job = Job()
        begun = asyncio.create_task(ask(one, job))
        await job.begun.wait()
        begun.cancel()
        assert await ask(other, job) == b"lost"
        assert await ask(one, job) == b"lost"

    run(check())


def test_a_server_that_takes_long_is_waited_for(tmp_path: Path) -> None:
    async def check() -> None:
        one, other = open_works(tmp_path)
        job = Job()
        begun = asyncio.create_task(ask(one, job))
        await job.begun.wait()
        with pytest.raises(TimeoutError):
            await other.do("key", job, lost=lose, patience=0.2)
        waiting = asyncio.create_task(ask(other, job))
        job.may_end.set()
        assert [await begun, await waiting] == [b"result 1"] * 2

    run(check())


def test_a_result_stays_where_the_store_forgets_the_claim(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "shared.db")
    store.write(StoreEntry("work", "key", b"earlier", field=RESULT))

    async def check() -> None:
        (work,) = open_works(tmp_path, 1)
        assert await ask(work, Job()) == b"earlier"

    run(check())
