"""Responses: the store, for those that are shown again or continued by `previous_response_id`."""

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from grammars.long_json import write_pieces
from server.http.json_pieces import read_in_pieces

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
        size: bytes of response and context as they are kept.
    """

    response: Json
    context: tuple[Json, ...]
    owner: str
    size: int

    @property
    def conversation(self) -> tuple[Json, ...]:
        """The conversation in front of the next response's own input."""
        return (*self.context, *self.response["output"])


ITEM_BYTES = 300  # of an item, beside its JSON: where it is found


def pack(value: Any) -> bytes:
    """A JSON value as it is kept."""
    return b"".join(piece.encode(errors="surrogatepass") for piece in write_pieces(value))


def unpack(packed: bytes) -> Any:
    """The value that was kept so."""
    return read_in_pieces(packed, _read_piece)


def _read_piece(piece: bytes, offset: int) -> Any:
    return json.loads(piece.decode(errors="surrogatepass"))


@dataclass(frozen=True)
class _PackedResponse:
    """A response as it is kept: its JSON, for its values take ten times the memory.

    Args:
        request: what it repeats of its request, and its context: JSON of a pair.
        rest: its other fields.
        owner, size: as of `StoredResponse`.
        items: the ids of the items of its conversation.
    """

    request: bytes
    rest: bytes
    owner: str
    size: int
    items: tuple[str, ...]

    def unpack(self) -> StoredResponse:
        described, context = unpack(self.request)
        response = {**described, **unpack(self.rest)}
        return StoredResponse(response, tuple(context), owner=self.owner, size=self.size)


class ResponseStore:
    """Responses by their owners and ids, the least recently used ones forgotten. For several
    threads.

    Args:
        max_responses: how many.
        max_bytes: of all together; a response that is larger alone is not kept.
    """

    def __init__(self, max_responses: int, max_bytes: int):
        self._max_responses = max_responses
        self._max_bytes = max_bytes
        self._size = 0
        self._kept: OrderedDict[Key, _PackedResponse] = OrderedDict()
        self._items: dict[Key, dict[str, None]] = {}
        """The ids of the responses that an item is in, the newest last."""
        self._lock = threading.Lock()

    def keep(
        self,
        response: Json,
        context: tuple[Json, ...],
        owner: str,
        *,
        repeated: Collection[str],
        request: bytes,
    ) -> None:
        """Keeps the response to a conversation.

        Args:
            repeated: fields of the response that repeat the request.
            request: these and the context, packed, see `pack`: they may be long.
        """
        rest = {name: value for name, value in response.items() if name not in repeated}
        packed = pack(rest)
        items = len(context) + len(response["output"])
        size = len(request) + len(packed) + ITEM_BYTES * items
        self.put(StoredResponse(response, context, owner=owner, size=size), (request, packed))

    def put(self, stored: StoredResponse, packed: tuple[bytes, bytes] | None = None) -> None:
        """Keeps a response, if it is not too large.

        Args:
            packed: what it repeats of its request, with the context; and the rest of it.
        """
        id = stored.response["id"]
        if stored.size > self._max_bytes:
            self.delete(stored.owner, id)
            return
        request, rest = packed or (pack([{}, stored.context]), pack(stored.response))
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
        """The response of this id; None if the owner has none. A long one takes its time: not on
        an event loop."""
        with self._lock:
            kept = self._kept.get((owner, id))
            if kept is None:
                return None
            self._kept.move_to_end((owner, id))
        return kept.unpack()

    def delete(self, owner: str, id: str) -> bool:
        """Forgets a response; says whether the owner had it."""
        with self._lock:
            return self._forget((owner, id))

    def find_items(self, owner: str, ids: Iterable[str]) -> Mapping[str, Json]:
        """The owner's items of these ids, as far as they are kept; of several, the newest."""
        wanted = dict[str, set[str]]()  # by the responses that they are in
        kept = list[_PackedResponse]()
        with self._lock:
            for id in ids:
                if copies := self._items.get((owner, id)):
                    wanted.setdefault(next(reversed(copies)), set()).add(id)
            kept += [self._kept[owner, response] for response in wanted]
        found = dict[str, Json]()
        for packed, items in zip(kept, wanted.values(), strict=True):
            for item in packed.unpack().conversation:
                if item["id"] in items:
                    found[item["id"]] = item
        return found
