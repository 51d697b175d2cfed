"""Responses: the store for responses that are shown again or continued by
`previous_response_id`."""

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from grammars.schema.json_values import JsonObject
from server.errors import refuse

Key: TypeAlias = tuple[str, str]
"""An owner, and the id of a response or an item: clients choose ids of items themselves."""


@dataclass(frozen=True)
class StoredResponse:
    """A response, and the conversation that it answered.

    Args:
        context: all items before it, including those of earlier responses, without instructions.
        owner: only the owner finds it. "": everybody does, if no API key is needed.
        size: of response and context in bytes, in the stored form.
    """

    response: JsonObject
    context: tuple[JsonObject, ...]
    owner: str
    size: int

    @property
    def conversation(self) -> tuple[JsonObject, ...]:
        return (*self.context, *self.response["output"])


ITEM_BYTES = 300  # of the index entry of an item, besides its JSON
READ_AT_ONCE = 4
"""The part of the store, as 1 in so many, that may be read to find the items of one request."""


def pack(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode(errors="surrogatepass")


def pack_request(described: JsonObject, context: Iterable[JsonObject]) -> bytes:
    """Packs the fields of a response that repeat its request, and its context: a line of JSON for
    these fields, and one for each item. A conversation can be longer than any body, and a single
    call of json for all of it would block other threads.

    Raises:
        UnicodeEncodeError, ValueError: there is a lone surrogate, or a number that is not finite.
    """
    parts = [described, *context]
    lines = [json.dumps(part, ensure_ascii=False, allow_nan=False).encode() for part in parts]
    return b"\n".join(lines)


@dataclass(frozen=True)
class _PackedResponse:
    """A response in the stored form: as JSON, since its values take ten times the memory.

    Args:
        request: the fields that repeat its request, and its context; see `pack_request`.
        rest: its other fields.
    """

    request: bytes
    rest: bytes
    owner: str
    size: int
    items: tuple[str, ...]

    def unpack(self) -> StoredResponse:
        described, *context = map(json.loads, self.request.split(b"\n"))
        response = {**described, **json.loads(self.rest)}
        return StoredResponse(response, tuple(context), owner=self.owner, size=self.size)


class ResponseStore:
    """Responses by owner and id; the least recently used ones are deleted. A response of more than
    `max_bytes` is not stored. Thread-safe."""

    def __init__(self, max_responses: int, max_bytes: int):
        self._max_responses = max_responses
        self._max_bytes = max_bytes
        self._max_read = max_bytes // READ_AT_ONCE
        self._size = 0
        self._kept: OrderedDict[Key, _PackedResponse] = OrderedDict()
        self._items: dict[Key, dict[str, None]] = {}
        """The ids of the responses that an item is in, the newest last."""
        self._lock = threading.Lock()

    def keep(
        self,
        response: JsonObject,
        context: tuple[JsonObject, ...],
        owner: str,
        *,
        repeated: Collection[str],
        request: bytes,
    ) -> None:
        """Stores the response to a conversation. `request` has the fields of the response that
        repeat the request, which are named, and the context; see `pack_request`."""
        rest = {name: value for name, value in response.items() if name not in repeated}
        packed = pack(rest)
        items = len(context) + len(response["output"])
        size = len(request) + len(packed) + ITEM_BYTES * items
        self.put(StoredResponse(response, context, owner=owner, size=size), (request, packed))

    def put(self, stored: StoredResponse, packed: tuple[bytes, bytes] | None = None) -> None:
        """Stores a response, if it is not too large. `packed` has the fields that repeat its
        request, with the context, and its other fields."""
        id = stored.response["id"]
        if stored.size > self._max_bytes:
            self.delete(stored.owner, id)
            return
        request, rest = packed or (pack_request({}, stored.context), pack(stored.response))
        items = tuple(item["id"] for item in stored.conversation)
        kept = _PackedResponse(request, rest, stored.owner, stored.size, items)
        with self._lock:
            self._forget((kept.owner, id))
            self._size += kept.size
            self._kept[kept.owner, id] = kept
            for item in items:
                self._items.setdefault((kept.owner, item), {})[id] = None
            while len(self._kept) > self._max_responses or self._size > self._max_bytes:
                self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> bool:
        owner, id = key
        kept = self._kept.pop(key, None)
        if kept is None:
            return False
        self._size -= kept.size
        for item in kept.items:
            copies = self._items.get((owner, item), {})
            copies.pop(id, None)
            if not copies:
                self._items.pop((owner, item), None)
        return True

    def get(self, owner: str, id: str) -> StoredResponse | None:
        """Returns the response with this id; None: the owner has none. Takes long for long
        responses: do not call it on an event loop."""
        with self._lock:
            kept = self._kept.get((owner, id))
            if kept is None:
                return None
            self._kept.move_to_end((owner, id))
        return kept.unpack()

    def delete(self, owner: str, id: str) -> bool:
        with self._lock:
            return self._forget((owner, id))

    def find_items(self, owner: str, ids: Iterable[str]) -> Mapping[str, JsonObject]:
        """Returns the owner's stored items with these ids; of several with one id, the newest."""
        wanted = dict[str, set[str]]()  # by the response that has them
        kept = list[_PackedResponse]()
        with self._lock:
            for id in ids:
                if copies := self._items.get((owner, id)):
                    wanted.setdefault(next(reversed(copies)), set()).add(id)
            kept += [self._kept[owner, response] for response in wanted]
        size = sum(packed.size for packed in kept)
        self._check_read(size, count=len(kept))
        found = dict[str, JsonObject]()
        for packed, items in zip(kept, wanted.values(), strict=True):
            for item in packed.unpack().conversation:
                if item["id"] in items:
                    found[item["id"]] = item
        return found

    def _check_read(self, size: int, *, count: int) -> None:
        """Refuses to read too much for one request: so many bytes, in so many stored values. A
        single one may have any size."""
        if count > 1 and size > self._max_read:
            message = (
                f"the stored values with the items have {size:,} bytes together, the limit is "
                f"{self._max_read:,}: send items themselves, or use previous_response_id"
            )
            raise refuse(message, "/input", "too_large")
