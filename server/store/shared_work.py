"""Work that is done once among all servers of a store: one claims it, the others wait for its
result."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress

from server.store.shared_store import LOG, SharedStore, StoreEntry, StoreError

CLAIM, ALIVE, RESULT = "claim", "alive", "result"
"""The fields of a piece of work."""
BEAT_SECONDS = 3.0
"""How often a server says that it is still at work."""
SILENT_SECONDS = 15.0
"""A server that has not said so for this time has gone."""
POLL_SECONDS = 0.25


class SharedWork:
    """Work that is done once. For one event loop.

    Args:
        store: that all servers share.
        space: the part of it that has this kind of work.
    """

    def __init__(self, store: SharedStore, space: str):
        self._store = store
        self._space = space

    async def do(
        self, key: str, work: Callable[[], Awaitable[bytes]], *, lost: Callable[[], bytes]
    ) -> bytes:
        """Does work that no server has done, or waits until the one that has begun it is done.

        Args:
            key: names the work.
            work: does it. If it raises, it counts as not done; if it is cancelled, as lost.
            lost: makes the result where the server that has begun it has gone in the middle.

        Returns:
            The result.

        Raises:
            StoreError: the store cannot be reached, and the work has not begun.
        """
        own = uuid.uuid4().hex.encode()
        claimed = await asyncio.to_thread(self._store.claim, self._entry(key, CLAIM, own))
        if claimed != own:
            return await self._wait(key, lost)
        beats = asyncio.create_task(self._say_alive(key))
        try:
            result = await work()
        except Exception:
            await asyncio.to_thread(self._store.delete, self._space, key)
            raise
        finally:
            beats.cancel()
        await self._keep(key, result)
        return result

    def _entry(self, key: str, field: str, value: bytes) -> StoreEntry:
        return StoreEntry(self._space, key, value, field=field)

    async def _keep(self, key: str, result: bytes) -> None:
        """Tells the others the result. The work is done, so that this one returns it whatever
        becomes of the store."""
        try:
            await asyncio.to_thread(self._store.write, self._entry(key, RESULT, result))
        except StoreError as error:
            LOG.error("other servers do not know what has become of a call: %s", error)

    async def _say_alive(self, key: str) -> None:
        count = 0
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            count += 1
            entry = self._entry(key, ALIVE, str(count).encode())
            with suppress(StoreError):
                await asyncio.to_thread(self._store.write, entry)

    async def _wait(self, key: str, lost: Callable[[], bytes]) -> bytes:
        clock = asyncio.get_running_loop().time
        alive, heard_at = b"", clock()
        while True:
            found = await asyncio.to_thread(self._store.read, self._space, key)
            if RESULT in found:
                return found[RESULT]
            if found.get(ALIVE, b"") != alive:
                alive, heard_at = found[ALIVE], clock()
            # By this clock alone: those of two machines may differ.
            if clock() - heard_at > SILENT_SECONDS:
                result = lost()
                await self._keep(key, result)
                return result
            await asyncio.sleep(POLL_SECONDS)
