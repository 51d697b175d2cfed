"""Responses: the store, for those that are shown again or continued by `previous_response_id`."""

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Json = dict[str, Any]
Key: TypeAlias = tuple[str, str]
"""An owner, and the id of a response or of an item: clients choose ids of items themselves."""


@dataclass(frozen=True)
class StoredResponse:
    """A response, and what it answered.

    Args:
        response: as it was sent.
        context: all items in front of it, those of earlier responses included, without
            instructions.
        owner: whose it is; nobody else finds it. "": everybody's, where no key is needed.
        size: bytes of the JSON of response and context, see `measure`.
    """

    response: Json
    context: tuple[Json, ...]
    owner: str
    size: int

    @property
    def conversation(self) -> tuple[Json, ...]:
        """The conversation in front of the next response's own input."""
        return (*self.context, *self.response["output"])


def measure(value: Any) -> int:
    """The bytes of a JSON value, in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


class ResponseStore:
    """Responses by their owners and ids, the least recently used ones forgotten. For several
    threads.

    Args:
        most: how many.
        most_bytes: of all together; a response that is larger alone is not kept.
    """

    def __init__(self, most: int, most_bytes: int):
        self._most = most
        self._most_bytes = most_bytes
        self._size = 0
        self._kept: OrderedDict[Key, StoredResponse] = OrderedDict()
        self._items: dict[Key, dict[str, Json]] = {}
        """By the ids of the responses that they are in, the newest last."""
        self._lock = threading.Lock()

    def keep(
        self,
        response: Json,
        context: tuple[Json, ...],
        owner: str,
        *,
        measured: Collection[str],
        size: int,
    ) -> None:
        """Keeps the response to a conversation.

        Args:
            measured: fields of the response that `size` counts already. They repeat the request,
                and may be long.
            size: bytes of the JSON of these and of the context.
        """
        rest = {name: value for name, value in response.items() if name not in measured}
        size += measure(rest)
        self.put(StoredResponse(response, context, owner=owner, size=size))

    def put(self, stored: StoredResponse) -> None:
        """Keeps a response, if it is not too large."""
        id = stored.response["id"]
        with self._lock:
            self._forget((stored.owner, id))
            if stored.size > self._most_bytes:
                return
            self._size += stored.size
            self._kept[stored.owner, id] = stored
            for item in stored.conversation:
                self._items.setdefault((stored.owner, item["id"]), {})[id] = item
            while len(self._kept) > self._most or self._size > self._most_bytes:
                self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> bool:
        owner, id = key
        stored = self._kept.pop(key, None)
        if stored is None:
            return False
        self._size -= stored.size
        for item in stored.conversation:
            copies = self._items.get((owner, item["id"]), {})
            copies.pop(id, None)
            if not copies:
                self._items.pop((owner, item["id"]), None)
        return True

    def get(self, owner: str, id: str) -> StoredResponse | None:
        """The response of this id; None if the owner has none."""
        with self._lock:
            if (owner, id) in self._kept:
                self._kept.move_to_end((owner, id))
            return self._kept.get((owner, id))

    def delete(self, owner: str, id: str) -> bool:
        """Forgets a response; says whether the owner had it."""
        with self._lock:
            return self._forget((owner, id))

    def find_items(self, owner: str, ids: Iterable[str]) -> Mapping[str, Json]:
        """The owner's items of these ids, as far as they are kept; of several, the newest."""
        with self._lock:
            found = dict[str, Json]()
            for id in ids:
                if copies := self._items.get((owner, id)):
                    found[id] = next(reversed(copies.values()))
            return found
