"""What the operator sees of requests: protocols of those who watch, and the values that they get.

A server works without them. `server.observe` has what implements the protocols.
"""

from dataclasses import dataclass
from typing import Protocol

from constrained.model.reply import Usage
from server.turns.request_record import RequestRecord


class TurnCounters(Protocol):
    """Counts turns and their tokens."""

    def note_usage(self, usage: Usage) -> None:
        """Counts the tokens of a turn."""
        ...

    def note_record(self, record: RequestRecord) -> None:
        """Counts a turn that is over."""
        ...

    def note_unfinished(self, count: int) -> None:
        """Counts turns that ended without a reply."""
        ...


class RecordObserver(Protocol):
    """Takes the record of each turn that is over."""

    def note(self, record: RequestRecord) -> None:
        """Takes the record of a turn that has just ended."""
        ...


@dataclass(frozen=True)
class Observers:
    """Who watches the requests of one model.

    Args:
        counters: count turns and tokens; None: nobody does.
        records: takes the record of each turn; None: nobody does.
    """

    counters: TurnCounters | None = None
    records: RecordObserver | None = None
