"""What the operator sees of requests: protocols of those who watch, and the values that they get.

A server works without them. `server.observe` has what implements the protocols.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Protocol

from constrained.model.reply import Usage
from constrained.model.trace.turn_trace import TurnTrace
from grammars.schema.json_values import Json
from server.turns.request_record import RequestRecord

KEY_DIGITS = 12


@dataclass(frozen=True)
class TracedRequest:
    """What a trace says about its request: the value of `x-request-id`, the number of the reply,
    the API key as `name_key` writes it, and the error of the turn; "": there is none."""

    id: str
    model: str
    choice: int = 0
    key: str = ""
    error: str = ""

    def to_json(self, time: datetime) -> dict[str, Json]:
        shown: dict[str, Json] = {
            "id": self.id,
            "time": time.isoformat(timespec="milliseconds"),
            "model": self.model,
            "choice": self.choice,
        }
        for name in ("key", "error"):
            if value := getattr(self, name):
                shown[name] = value
        return shown


def name_key(key: object) -> str:
    """Identifies an API key without revealing it: the beginning of its SHA-256."""
    if key is None:
        return ""
    data = key if isinstance(key, bytes) else str(key).encode()
    return sha256(data).hexdigest()[:KEY_DIGITS]


class TurnCounters(Protocol):
    def note_usage(self, usage: Usage) -> None: ...

    def note_record(self, record: RequestRecord) -> None: ...

    def note_unfinished(self, count: int) -> None: ...


class RecordObserver(Protocol):
    def note(self, record: RequestRecord) -> None: ...


class TraceObserver(Protocol):
    def note(self, request: TracedRequest, trace: TurnTrace) -> None:
        """May not wait for anything."""
        ...


@dataclass(frozen=True)
class Observers:
    """Who watches the requests of one model. Without `traces`, turns are traced only if clients
    want that."""

    counters: TurnCounters | None = None
    records: RecordObserver | None = None
    traces: TraceObserver | None = None
