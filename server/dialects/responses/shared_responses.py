"""Responses in a shared store, so that any front can show and continue them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from server.dialects.responses.store import Json, ResponseStore, StoredResponse
from server.store.shared_store import SharedStore, StoreEntry

RESPONSES, ITEMS = "response", "item"


@dataclass(frozen=True)
class _OwnedId:
    """The id of a response or an item together with its owner; other owners do not find it."""

    owner: str
    id: str

    @property
    def key(self) -> str:
        return f"{self.owner}/{self.id}"


class SharedResponses(ResponseStore):
    """A `ResponseStore` whose responses are in a shared store.

    Args:
        store: the shared store.
        max_bytes: of one response.
    """

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
            place = _OwnedId(stored.owner, item["id"])
            entries.append(StoreEntry(ITEMS, place.key, _pack(item), field=id))
        entries.append(StoreEntry(RESPONSES, _OwnedId(stored.owner, id).key, _pack(value)))
        self._store.write(*entries)

    def get(self, owner: str, id: str) -> StoredResponse | None:
        found = self._store.read(RESPONSES, _OwnedId(owner, id).key).get("")
        if found is None:
            return None
        value = json.loads(found)
        return StoredResponse(
            value["response"], tuple(value["context"]), owner=owner, size=value["size"]
        )

    def delete(self, owner: str, id: str) -> bool:
        return self._store.delete(RESPONSES, _OwnedId(owner, id).key)

    def find_items(self, owner: str, ids: Iterable[str]) -> Mapping[str, Json]:
        found = dict[str, Json]()
        for id in ids:
            copies = self._store.read(ITEMS, _OwnedId(owner, id).key)
            living = [response for response in copies if self._has(owner, response)]
            if living:
                found[id] = json.loads(copies[living[-1]])
        return found

    def _has(self, owner: str, id: str) -> bool:
        return bool(self._store.read(RESPONSES, _OwnedId(owner, id).key))


def _pack(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()
