"""The filters of a turn, one behind the other."""

from collections.abc import Sequence

from constrained.decode.filters.call_limits import CallLimiter
from constrained.decode.filters.checked_values import CheckedSchemas, EventBuffer, ReadPlace
from constrained.decode.filters.events import EventFilter, StreamEvent
from constrained.decode.filters.stop_texts import StopFilter
from constrained.prompt.job import NO_LIMITS, CallLimits


class FilterChain:
    """What the events of one turn pass before they are sent: the filters that it needs."""

    def __init__(
        self,
        place: ReadPlace,
        begun: str,
        *,
        schemas: CheckedSchemas,
        limits: CallLimits,
        may_go_back: bool,
        stops: Sequence[str],
    ):
        self.checks = None if schemas.is_empty else EventBuffer(schemas, place, begun)
        self.limiter: CallLimiter | None = None
        if limits != NO_LIMITS or may_go_back:
            self.limiter = CallLimiter(limits, may_go_back=may_go_back)
        self.stops = StopFilter(stops) if stops else None
        self._filters = _list_given(self.checks, self.limiter, self.stops)

    def take(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Takes the events of one token; returns those that may be sent."""
        for one in self._filters:
            events = one.take(events)
        return events

    def close(self, events: Sequence[StreamEvent], *, is_whole: bool) -> Sequence[StreamEvent]:
        """Takes the last events of the turn; returns those that may be sent."""
        for one in self._filters:
            events = [*one.take(events), *one.close(is_whole=is_whole)]
        return events

    def admit_barred_call(self, limiter: CallLimiter) -> Sequence[StreamEvent]:
        """Lets the excluded call pass; returns the events that may be sent."""
        held = limiter.admit_barred()
        return held if self.stops is None else self.stops.take(held)

    def lift_limits(self) -> None:
        """Lets all calls pass from now on."""
        self.limiter = None
        self._filters = _list_given(self.checks, self.stops)


def _list_given(*filters: EventFilter | None) -> list[EventFilter]:
    return [one for one in filters if one is not None]
