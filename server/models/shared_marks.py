"""Small values in a shared store: ids of calls, and dates of conversations."""

from datetime import datetime

from constrained.engine.files.stored import skipping
from server.models.shared_store import BestEffortStore, SharedStore, StoreEntry

CALLS, DATES = "call", "date"


class StoredIds:
    """The `SharedIds` in a shared store."""

    def __init__(self, store: SharedStore):
        self._store = BestEffortStore(store)

    def find(self, id: str) -> str | None:
        found = self._store.read(CALLS, id).get("")
        with skipping(f"the call {id!r} of the shared store"):
            return None if found is None else found.decode()

    def keep(self, id: str, written: str) -> None:
        self._store.write(StoreEntry(CALLS, id, written.encode(errors="replace")))


class StoredDates:
    """The `SharedDates` in a shared store."""

    def __init__(self, store: SharedStore):
        self._store = BestEffortStore(store)

    def find(self, key: bytes) -> datetime | None:
        found = self._store.read(DATES, key.hex()).get("")
        with skipping("a date of the shared store"):
            return None if found is None else datetime.fromisoformat(found.decode())

    def keep(self, key: bytes, moment: datetime) -> None:
        self._store.write(StoreEntry(DATES, key.hex(), moment.isoformat().encode()))
