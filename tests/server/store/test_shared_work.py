"""Work that several servers may begin, and that one of them does."""

import asyncio
from pathlib import Path

import pytest

from server.store import shared_work
from server.store.shared_work import SharedWork
from server.store.sqlite_store import SqliteStore


def lose() -> bytes:
    return b"lost"


def open_works(folder: Path, count: int = 2) -> list[SharedWork]:
    """Servers with a store in common."""
    return [SharedWork(SqliteStore(folder / "shared.db"), "work") for _ in range(count)]


def test_it_is_done_once(tmp_path: Path) -> None:
    done: list[str] = []

    async def work() -> bytes:
        done.append("x")
        await asyncio.sleep(0.05)
        return b"result"

    async def check() -> None:
        works = open_works(tmp_path, 5)
        asked = (one.do("key", work, lost=lose) for one in works)
        assert await asyncio.gather(*asked) == [b"result"] * 5
        (restarted,) = open_works(tmp_path, 1)
        assert await restarted.do("key", work, lost=lose) == b"result"
        assert len(done) == 1
        await restarted.do("another key", work, lost=lose)
        assert len(done) == 2

    asyncio.run(check())


def test_what_has_failed_can_be_done_again(tmp_path: Path) -> None:
    async def fail() -> bytes:
        raise ValueError("no")

    async def work() -> bytes:
        return b"result"

    async def check() -> None:
        one, other = open_works(tmp_path)
        with pytest.raises(ValueError, match="no"):
            await one.do("key", fail, lost=lose)
        assert await other.do("key", work, lost=lose) == b"result"

    asyncio.run(check())


def test_a_server_that_goes_in_the_middle_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether the work was done, so nobody does it again."""
    monkeypatch.setattr(shared_work, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(shared_work, "POLL_SECONDS", 0.01)

    async def hang() -> bytes:
        await asyncio.sleep(3600)
        return b""

    async def check() -> None:
        one, other = open_works(tmp_path)
        begun = asyncio.create_task(one.do("key", hang, lost=lose))
        await asyncio.sleep(0.1)
        begun.cancel()
        assert await other.do("key", hang, lost=lose) == b"lost"
        assert await one.do("key", hang, lost=lose) == b"lost"

    asyncio.run(check())


def test_a_server_that_takes_long_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_work, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(shared_work, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(shared_work, "POLL_SECONDS", 0.01)
    is_done = asyncio.Event()

    async def work() -> bytes:
        await is_done.wait()
        return b"result"

    async def check() -> None:
        one, other = open_works(tmp_path)
        begun = asyncio.create_task(one.do("key", work, lost=lose))
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(other.do("key", work, lost=lose))
        await asyncio.sleep(0.8)
        assert not waiting.done()
        is_done.set()
        assert [await begun, await waiting] == [b"result"] * 2

    asyncio.run(check())
