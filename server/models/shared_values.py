"""What models keep in a shared store, so that every server can continue a conversation: generated
turns with their tokens, ids of calls, and dates of conversations."""

import json
from array import array
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from constrained.engine.files.stored import skipping
from constrained.prompt.turn_cache import CachedTurn, TurnKey
from server.models.shared_store import BestEffortStore, SharedStore, StoreEntry

CALLS, DATES = "call", "date"
_LENGTH = 4


class SharedTurns:
    """A `TurnStore` in a shared store; `model` identifies vocabulary and templates, since tokens of
    other models mean something else."""

    def __init__(self, store: SharedStore, model: str):
        self._store = BestEffortStore(store)
        self._space = f"turn/{model}"

    def find(self, key: bytes) -> Iterator[tuple[CachedTurn, TurnKey | None]]:
        for value in self._store.read(self._space, key.hex()).values():
            with skipping("a turn of the shared store"):
                yield _unpack(value)

    def keep(self, key: bytes, turn: CachedTurn) -> None:
        self._store.write(StoreEntry(self._space, key.hex(), _pack(turn), field=turn.name.hex()))


def _pack(turn: CachedTurn) -> bytes:
    before = None
    if turn.before is not None:
        before = [turn.before.key.hex(), turn.before.name.hex()]
    head: dict[str, Any] = {
        "before": before,
        "added": len(turn.added),
        "message": turn.message,
        "reasoning": sorted(turn.shown_reasoning),
    }
    data = json.dumps(head).encode()
    return b"".join(
        [len(data).to_bytes(_LENGTH), data, array("i", turn.added).tobytes(), turn.tokens.tobytes()]
    )


def _unpack(value: bytes) -> tuple[CachedTurn, TurnKey | None]:
    start = _LENGTH + int.from_bytes(value[:_LENGTH])
    head = json.loads(value[_LENGTH:start])
    tokens = array("i")
    tokens.frombytes(value[start:])
    turn = CachedTurn(
        before=None,
        added=tokens[: head["added"]],
        tokens=tokens[head["added"] :],
        message=head["message"],
        shown_reasoning=frozenset(head["reasoning"]),
    )
    before: Any = head["before"]
    return turn, None if before is None else (bytes.fromhex(before[0]), bytes.fromhex(before[1]))


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
