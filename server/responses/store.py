"""Responses that are kept: to be shown again, and to be gone on from."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    """A response, and what it answered.

    Args:
        response: as it was sent.
        context: all items in front of it, those of earlier responses included, without
            instructions.
    """

    response: Json
    context: tuple[Json, ...]

    @property
    def conversation(self) -> tuple[Json, ...]:
        """What the next response has in front of its own input."""
        return (*self.context, *self.response["output"])


class Store:
    """Responses by their ids, the least recently used ones forgotten. For several threads.

    Args:
        most: how many.
    """

    def __init__(self, most: int):
        self._most = most
        self._kept: OrderedDict[str, Stored] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, stored: Stored) -> None:
        """Keeps a response."""
        with self._lock:
            self._kept[stored.response["id"]] = stored
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def get(self, id: str) -> Stored | None:
        """The response of this id; None if it is not kept."""
        with self._lock:
            if id in self._kept:
                self._kept.move_to_end(id)
            return self._kept.get(id)

    def delete(self, id: str) -> bool:
        """Forgets a response; says whether it was there."""
        with self._lock:
            return self._kept.pop(id, None) is not None

    def find_items(self, ids: set[str]) -> Mapping[str, Json]:
        """The items of these ids, as far as they are kept; of several, the newest."""
        with self._lock:
            kept = [*self._kept.values()] if ids else []
        items = (item for stored in kept for item in stored.conversation)
        return {item["id"]: item for item in items if item["id"] in ids}
