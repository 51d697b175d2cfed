"""A store that several processes share: small values by space, key and field."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from server.errors import StoreError

T = TypeVar("T")
LOG = logging.getLogger("constrained.server")
QUIET_SECONDS = 10.0
"""The minimum time between two log lines about an unreachable store."""


def explain_failure(name: str, error: Exception, *, is_opening: bool) -> StoreError:
    """Returns the error of a store that cannot be used. The operator sees the reason at the start
    or in the log. Clients do not, because it may name files and machines."""
    if is_opening:
        message = f"the shared store {name} cannot be used: {error}"
        return StoreError(message, hint="Give --store another address, or none")
    LOG.error("the shared store %s: %s", name, error)
    return StoreError("the shared store cannot be used", hint="The log of the server says why")


@dataclass(frozen=True)
class StoreEntry:
    space: str
    key: str
    value: bytes
    field: str = ""


class SharedStore(Protocol):
    """Keeps values for a time; if space is short, the least recently used go first. Thread-safe.

    Raises (all methods):
        StoreError: the store cannot be reached.
    """

    def read(self, space: str, key: str) -> dict[str, bytes]:
        """Returns the values of a key by field, the oldest first; empty if there are none."""
        ...

    def exists(self, space: str, key: str) -> bool:
        """Returns whether a key has values, without reading them."""
        ...

    def write(self, *entries: StoreEntry) -> None:
        """Stores values. Each replaces an earlier one with the same key and field."""
        ...

    def delete(self, space: str, key: str) -> bool:
        """Deletes a key with all its fields; returns whether it existed."""
        ...

    def close(self) -> None: ...


class BestEffortStore:
    """A store that is used only as a cache: while it cannot be reached, it counts as empty."""

    def __init__(self, store: SharedStore):
        self._store = store
        self._said_at = -QUIET_SECONDS

    def read(self, space: str, key: str) -> dict[str, bytes]:
        return self._try(lambda: self._store.read(space, key), dict[str, bytes]())

    def write(self, entry: StoreEntry) -> None:
        self._try(lambda: self._store.write(entry), None)

    def _try(self, work: Callable[[], T], otherwise: T) -> T:
        try:
            return work()
        except StoreError as error:
            now = time.monotonic()
            if now - self._said_at >= QUIET_SECONDS:
                self._said_at = now
                LOG.warning("the shared store: %s; prompts may be computed again", error)
            return otherwise
