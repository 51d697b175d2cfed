"""What models keep in a shared store, so that every server can continue a conversation: generated
turns with their tokens, ids of calls, and dates of conversations."""

import json
from array import array
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from constrained.engine.files.stored import skipping
from constrained.prompt.turn_cache import PackedTurn
from server.models.shared_store import BestEffortStore, SharedStore, StoreEntry

CALLS, DATES = "call", "date"
_LENGTH = 4


class SharedTurns:
    """A `TurnStore` in a shared store; `model` identifies vocabulary and templates, since tokens of
    other models mean something else."""

    def __init__(self, store: SharedStore, model: str):
        self._store = BestEffortStore(store)
        self._space = f"turn/{model}"

    def find(self, key: bytes) -> Iterator[PackedTurn]:
        for value in self._store.read(self._space, key.hex()).values():
            with skipping("a turn of the shared store"):
                yield _unpack(value)

    def keep(self, key: bytes, turn: PackedTurn) -> None:
        self._store.write(StoreEntry(self._space, key.hex(), _pack(turn), field=turn.name.hex()))


def _pack(turn: PackedTurn) -> bytes:
    before = None if turn.before is None else [part.hex() for part in turn.before]
    head: dict[str, Any] = {
        "name": turn.name.hex(),
        "before": before,
        "added": len(turn.added),
        "message": turn.message,
        "reasoning": sorted(turn.shown_reasoning),
    }
    data = json.dumps(head).encode()
    return b"".join(
        [len(data).to_bytes(_LENGTH), data, array("i", turn.added).tobytes(), turn.tokens.tobytes()]
    )


def _unpack(value: bytes) -> PackedTurn:
    start = _LENGTH + int.from_bytes(value[:_LENGTH])
    head = json.loads(value[_LENGTH:start])
    tokens = array("i")
    tokens.frombytes(value[start:])
    before: Any = head["before"]
    return PackedTurn(
        name=bytes.fromhex(head["name"]),
        before=None if before is None else (bytes.fromhex(before[0]), bytes.fromhex(before[1])),
        added=tokens[: head["added"]],
        tokens=tokens[head["added"] :],
        message=head["message"],
        shown_reasoning=frozenset(head["reasoning"]),
    )


class StoredIds:
    def __init__(self, store: SharedStore):
        self._store = BestEffortStore(store)

    def find(self, id: str) -> str | None:
        found = self._store.read(CALLS, id).get("")
        with skipping(f"the call {id!r} of the shared store"):
            return None if found is None else found.decode()

    def keep(self, id: str, written: str) -> None:
        self._store.write(StoreEntry(CALLS, id, written.encode(errors="replace")))


class StoredDates:
    def __init__(self, store: SharedStore):
        self._store = BestEffortStore(store)

    def find(self, key: bytes) -> datetime | None:
        found = self._store.read(DATES, key.hex()).get("")
        with skipping("a date of the shared store"):
            return None if found is None else datetime.fromisoformat(found.decode())

    def keep(self, key: bytes, moment: datetime) -> None:
        self._store.write(StoreEntry(DATES, key.hex(), moment.isoformat().encode()))
