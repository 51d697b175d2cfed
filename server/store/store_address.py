"""Opens the shared store at an address."""

from constrained.errors import RequestError
from server.models.shared_store import SharedStore
from server.store.redis_store import RedisStore
from server.store.sqlite_store import SqliteStore

SQLITE, REDIS = "sqlite:", ("redis://", "rediss://", "unix://")


def open_store(address: str) -> SharedStore:
    """Opens a store.

    Raises:
        RequestError: the address is not valid, or the package is missing.
        StoreError: the store cannot be reached.
    """
    if address.startswith(SQLITE):
        return SqliteStore(address.removeprefix(SQLITE))
    if address.startswith(REDIS):
        return RedisStore(address)
    hint = "Write sqlite:FILE, or redis://HOST:PORT"
    raise RequestError(f"{address!r} is not an address of a store", where="/store", hint=hint)
