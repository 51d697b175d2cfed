"""A store that several processes share: small values by space, key and field."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from grammars.errors import Error

T = TypeVar("T")
LOG = logging.getLogger("constrained.server")
UNUSABLE, HINT = "the shared store cannot be used", "The log of the server says why"
QUIET_SECONDS = 10.0
"""Between two lines of the log that say that the store cannot be reached."""


class StoreError(Error):
    """The store cannot be reached, or refuses."""


@dataclass(frozen=True)
class StoreEntry:
    """A value, and where it is kept."""

    space: str
    key: str
    value: bytes
    field: str = ""


class SharedStore(Protocol):
    """Keeps values for a time; the ones that were not used for the longest go first where room is
    short. For several threads.

    Raises (all methods):
        StoreError: it cannot be reached.
    """

    def read(self, space: str, key: str) -> dict[str, bytes]:
        """The values of a key by their fields, the oldest first; empty if there are none."""
        ...

    def write(self, *entries: StoreEntry) -> None:
        """Keeps values, each in place of an earlier one of the same key and field."""
        ...

    def claim(self, entry: StoreEntry) -> bytes:
        """Keeps a value where there is none; returns the one that is there then. Of several
        processes that do so at the same time, all get the same value."""
        ...

    def delete(self, space: str, key: str) -> bool:
        """Forgets a key with all of its fields; says whether there were any."""
        ...

    def close(self) -> None:
        """Lets go of the store; a second time does nothing."""
        ...


class Lenient:
    """Uses a store for what is only a cache: where it cannot be reached, there is nothing in it.

    Args:
        store: to use.
    """

    def __init__(self, store: SharedStore):
        self._store = store
        self._said_at = -QUIET_SECONDS

    def read(self, space: str, key: str) -> dict[str, bytes]:
        """As of the store; empty where it cannot be reached."""
        return self._try(lambda: self._store.read(space, key), dict[str, bytes]())

    def write(self, entry: StoreEntry) -> None:
        """As of the store; nothing where it cannot be reached."""
        self._try(lambda: self._store.write(entry), None)

    def _try(self, work: Callable[[], T], otherwise: T) -> T:
        try:
            return work()
        except StoreError as error:
            now = time.monotonic()
            if now - self._said_at >= QUIET_SECONDS:
                self._said_at = now
                LOG.warning("the shared store: %s; prompts may be computed anew", error)
            return otherwise
