"""Holds back the events of a turn until it is decided whether the turn becomes the reply."""

from collections.abc import Sequence

from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.schedule.streams import Sink


class HeldEvents:
    """Holds back the events of a turn.

    Args:
        sink: gets the events when they are released, but progress at once.
    """

    def __init__(self, sink: Sink):
        self._sink = sink
        self._events: list[StreamEvent] = []

    def take(self, events: Sequence[StreamEvent]) -> None:
        """Holds events."""
        progress: list[StreamEvent] = []
        for event in events:
            if isinstance(event, ProgressMade):
                progress.append(event)
            else:
                self._events.append(event)
        if progress:
            self._sink(progress)

    def release(self) -> None:
        """Sends the held events: the turn is the reply."""
        self._sink(self._events)
