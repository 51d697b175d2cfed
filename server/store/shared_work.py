"""Work that is done once among all servers of a store: one server claims it, the others wait for
its result."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress

from server.store.shared_store import LOG, SharedStore, StoreEntry, StoreError

CLAIM, ALIVE, RESULT = "claim", "alive", "result"
"""The fields of a piece of work."""
BEAT_SECONDS = 3.0
"""How often a server reports that it is still at work."""
SILENT_SECONDS = 15.0
"""A server without a report for this time counts as ended."""
POLL_SECONDS = 0.25


class SharedWork:
    """Work that is done once. For one event loop.

    Args:
        store: the store that all servers share.
        space: the space of this kind of work.
    """

    def __init__(self, store: SharedStore, space: str):
        self._store = store
        self._space = space

    async def do(
        self,
        key: str,
        work: Callable[[], Awaitable[bytes]],
        *,
        lost: Callable[[], bytes],
        patience: float,
    ) -> bytes:
        """Does work that no server has done, or waits for the server that does it.

        Args:
            key: identifies the work.
            work: does it. If it raises an error, it counts as not done; if it is cancelled, as
                lost.
            lost: makes the result if the server that was doing the work has ended.
            patience: how long to wait for another server, in seconds.

        Returns:
            The result, which is the same for all.

        Raises:
            TimeoutError: another server is still at work.
            StoreError: the store cannot be reached; this server has not started the work.
        """
        own = uuid.uuid4().hex.encode()
        async with asyncio.timeout(patience):
            result = await self._claim(key, own, lost)
        if result is not None:
            return result
        beats = asyncio.create_task(self._report_alive(key, own))
        try:
            result = await work()
        except Exception:
            await self._give_back(key)
            raise
        finally:
            beats.cancel()
        return await self._keep(key, result)

    async def _claim(self, key: str, own: bytes, lost: Callable[[], bytes]) -> bytes | None:
        """Waits for a result and returns it; or returns None when this server has claimed the work.
        A server whose work fails withdraws its claim."""
        while True:
            entry = StoreEntry(self._space, key, own, field=CLAIM)
            claimed = await asyncio.to_thread(self._store.claim, entry)
            found = await asyncio.to_thread(self._store.read, self._space, key)
            # The store may have dropped the claim, which is older than the result.
            if RESULT in found:
                return found[RESULT]
            if claimed == own:
                return None
            result = await self._wait(key, claimed, lost)
            if result is not None:
                return result

    async def _wait(self, key: str, claimed: bytes, lost: Callable[[], bytes]) -> bytes | None:
        """Waits for the server that has claimed the work; None: it has withdrawn its claim."""
        clock = asyncio.get_running_loop().time
        alive, heard_at = b"", clock()
        while True:
            found = await asyncio.to_thread(self._store.read, self._space, key)
            if RESULT in found:
                return found[RESULT]
            if found.get(CLAIM) != claimed:
                return None
            beat = found.get(ALIVE, b"")
            if beat != alive:
                alive, heard_at = beat, clock()
            # Only this clock counts: the clocks of two machines may differ.
            if clock() - heard_at > SILENT_SECONDS:
                return await self._keep(key, lost())
            await asyncio.sleep(POLL_SECONDS)

    async def _keep(self, key: str, result: bytes) -> bytes:
        """Stores the result for the other servers; returns the result that was stored first. The
        work is done, so this returns a result even if the store fails."""
        entry = StoreEntry(self._space, key, result, field=RESULT)
        try:
            return await asyncio.to_thread(self._store.claim, entry)
        except StoreError as error:
            LOG.error("the result of a call could not be shared with other servers: %s", error)
            return result

    async def _give_back(self, key: str) -> None:
        try:
            await asyncio.to_thread(self._store.delete, self._space, key)
        except StoreError as error:
            LOG.error("other servers think that a call is lost that was not made: %s", error)

    async def _report_alive(self, key: str, own: bytes) -> None:
        count = 0
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            count += 1
            # Writing the claim again keeps the store from dropping it first.
            claim = StoreEntry(self._space, key, own, field=CLAIM)
            beat = StoreEntry(self._space, key, str(count).encode(), field=ALIVE)
            with suppress(StoreError):
                await asyncio.to_thread(self._store.write, claim, beat)
