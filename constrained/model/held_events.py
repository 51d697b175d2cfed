"""Events of a turn that wait until it is known that the turn is the reply."""

from collections.abc import Sequence

from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.schedule.worker import Sink


class HeldEvents:
    """The events of a turn of which nobody knows yet whether it is the reply.

    Args:
        sink: gets them when they are released; progress at once, as it says nothing of the turn.
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
        """Sends what is held on: the turn is the reply."""
        self._sink(self._events)
