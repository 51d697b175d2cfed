"""What the operator sees of requests: protocols of those who watch, and the values that they get.

A server works without them. `server.observe` has what implements the protocols.
"""

from dataclasses import dataclass
from typing import Protocol

from constrained.model.reply import Usage
from server.turns.request_record import RequestRecord


class TurnCounters(Protocol):
    def note_usage(self, usage: Usage) -> None: ...

    def note_record(self, record: RequestRecord) -> None: ...

    def note_unfinished(self, count: int) -> None: ...


class RecordObserver(Protocol):
    def note(self, record: RequestRecord) -> None: ...


@dataclass(frozen=True)
class Observers:
    """Who watches the requests of one model; None: nobody does."""

    counters: TurnCounters | None = None
    records: RecordObserver | None = None
