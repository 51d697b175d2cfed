"""Responses in a shared store, so that any front can show and continue them."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from constrained.engine.files.stored import skipping
from grammars.schema.json_values import Json
from server.dialects.responses.store import ResponseStore, StoredResponse
from server.models.shared_store import SharedStore, StoreEntry

RESPONSES, ITEM_COPIES, ITEMS = "response", "item-copy", "item"
"""The spaces of the store. A long conversation has the same items in many responses. So an item is
stored once, by the hash of its JSON, and a copy is only this hash, by the id of its response."""


class SharedResponses(ResponseStore):
    """A `ResponseStore` whose responses are in a shared store, each of at most `max_bytes`."""

    def __init__(self, store: SharedStore, max_bytes: int):
        super().__init__(max_responses=1, max_bytes=max_bytes)
        self._store = store
        self._max_bytes_of_one = max_bytes

    def put(self, stored: StoredResponse, packed: tuple[bytes, bytes] | None = None) -> None:
        if stored.size > self._max_bytes_of_one:
            return
        id = stored.response["id"]
        value = {"response": stored.response, "context": stored.context, "size": stored.size}
        entries: list[StoreEntry] = []
        for item in stored.conversation:
            packed_item = _pack(item)
            hash = hashlib.sha256(packed_item).hexdigest()
            entries.append(StoreEntry(ITEMS, _join(stored.owner, hash), packed_item))
            entries.append(
                StoreEntry(ITEM_COPIES, _join(stored.owner, item["id"]), hash.encode(), field=id)
            )
        entries.append(StoreEntry(RESPONSES, _join(stored.owner, id), _pack(value)))
        self._store.write(*entries)

    def get(self, owner: str, id: str) -> StoredResponse | None:
        found = self._store.read(RESPONSES, _join(owner, id)).get("")
        if found is None:
            return None
        with skipping(f"the response {id!r} of the shared store"):
            value = json.loads(found)
            return StoredResponse(
                value["response"], tuple(value["context"]), owner=owner, size=value["size"]
            )

    def delete(self, owner: str, id: str) -> bool:
        return self._store.delete(RESPONSES, _join(owner, id))

    def find_items(self, owner: str, ids: Iterable[str]) -> Mapping[str, Json]:
        packed = dict[str, bytes]()
        size = 0
        living = dict[str, bool]()  # by the id of a response
        for id in dict.fromkeys(ids):
            hash = self._find_newest(owner, id, living)
            item = None if hash is None else self._store.read(ITEMS, _join(owner, hash))
            if item:
                packed[id] = item[""]
                size += len(packed[id])
                self._check_read(size, count=len(packed))
        items = dict[str, Json]()
        for id, item in packed.items():
            with skipping(f"the item {id!r} of the shared store"):
                items[id] = json.loads(item)
        return items

    def _find_newest(self, owner: str, id: str, living: dict[str, bool]) -> str | None:
        """Returns the hash of the newest copy of an item whose response is still stored; None:
        there is none. Fills `living`: whether responses are still stored."""
        copies = self._store.read(ITEM_COPIES, _join(owner, id))
        for response, hash in reversed(copies.items()):
            if response not in living:
                living[response] = self._store.exists(RESPONSES, _join(owner, response))
            if living[response]:
                return hash.decode()
        return None


def _pack(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


def _join(owner: str, id: str) -> str:
    """Returns the key of a value that no other owner finds."""
    return f"{owner}/{id}"
