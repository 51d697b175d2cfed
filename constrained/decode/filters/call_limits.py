"""The limits of the calls of a turn: how many calls, and how often an identical one.

If small models have to call a tool, they may repeat their first call until the tokens run out,
since the grammar allows any number of calls. So complete calls are counted, and the decoder ends
the turn after the last one that it may have. Events that were sent are never taken back, so the
events of a call are held back while it equals a call that must not be repeated. Calls of earlier
turns may be excluded, too: if the first call of the turn is one of them, the decoder goes back to
before it.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from constrained.decode.filters.events import StreamEvent
from constrained.mask.logprobs import TokenDrawn
from constrained.prompt.job import CallLimits
from grammars.schema.nodes import identify
from grammars.turn import ArgumentEnd, ArgumentsDelta, CallCut, CallOpened, CallRead, ToolCall


class CallLimiter:
    """Passes the events of one turn, in order, up to the last call that the turn may have.

    Args:
        may_go_back: the turn may also go back to before its first call for another reason.

    Attributes:
        last: the number, from 0, of the call after which the turn has to end; no later events pass.
            None: the turn need not end yet.
        barred: the first call of the turn, if it is an excluded one. No events pass until the turn
            goes back, or `admit_barred` is called.
    """

    def __init__(self, limits: CallLimits, *, may_go_back: bool = False):
        self._limits = limits
        self._may_go_back = may_go_back or bool(limits.excluded)
        self._counts = Counter[str]()
        # The arguments of calls that must not be repeated, by tool; the values are those of
        # `identify`.
        self._exhausted: dict[str, list[Mapping[str, str]]] = defaultdict(list)
        self._candidates: list[Mapping[str, str]] = []  # those that the current call may equal
        self._waiting: list[StreamEvent] = []
        self._index = -1  # of the current call
        self._is_after_call = False
        self.last: int | None = None
        self.barred: ToolCall | None = None
        self._excluded: set[str] = set()
        for call in limits.excluded:
            self._excluded.add(_identify(call))
            self._exhaust(call)

    def _exhaust(self, call: ToolCall) -> None:
        arguments = {name: identify(value) for name, value in call.arguments.items()}
        self._exhausted[call.name].append(arguments)

    @property
    def suspect(self) -> int | None:
        """The number of the current call, while it equals one that must not be repeated."""
        return self._index if self._candidates else None

    def take(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Takes the next events; returns those that may be sent."""
        sent: list[StreamEvent] = []
        for event in events:
            if self.last is not None:
                break
            self._note(event)
            if isinstance(event, CallRead) and self.last == event.index - 1:
                break
            self._waiting.append(event)
            if self.barred is None and not self._candidates and not self._may_begin_call(event):
                sent += self._waiting
                self._waiting.clear()
        return sent

    def admit_barred(self) -> Sequence[StreamEvent]:
        """Lets the excluded call pass; returns the events that were held back."""
        self.barred = None
        waiting, self._waiting = self._waiting, []
        return waiting

    def close(self, *, is_whole: bool = True) -> Sequence[StreamEvent]:
        """Ends the turn; returns the events that were held back and may be sent."""
        if self.last is not None or self.barred is not None:
            return ()
        waiting, self._waiting = self._waiting, []
        return waiting

    def _may_begin_call(self, event: StreamEvent) -> bool:
        """True for a token before a call that may have to be left out: the text between two calls,
        or before the first one, belongs to the call after it."""
        if not isinstance(event, TokenDrawn):
            return False
        if self._index < 0:
            return self._may_go_back
        return self._is_after_call and bool(self._exhausted)

    def _note(self, event: StreamEvent) -> None:
        if not isinstance(event, TokenDrawn):
            self._is_after_call = isinstance(event, CallRead)
        match event:
            case CallOpened(index, name):
                self._candidates = list(self._exhausted[name])
                self._index = index
            case ArgumentsDelta():
                for boundary in event.boundaries:
                    if self._candidates and isinstance(boundary, ArgumentEnd):
                        self._compare(boundary)
            case CallRead(index, call):
                self._candidates = []
                self._count(call, index)
            case CallCut():
                self._candidates = []
            case _:
                pass

    def _compare(self, end: ArgumentEnd) -> None:
        value = identify(end.value)
        self._candidates = [known for known in self._candidates if known.get(end.key) == value]

    def _count(self, call: ToolCall, index: int) -> None:
        text = _identify(call)
        self._counts[text] += 1
        count, limit = self._counts[text], self._limits.identical
        if call.name in self._limits.repeatable:
            limit = None
        is_excluded = text in self._excluded
        if count == limit:
            self._exhaust(call)
        if is_excluded and index == 0:
            self.barred = call
        elif is_excluded or (limit is not None and count > limit):
            self.last = index - 1
        elif index + 1 == self._limits.calls:
            self.last = index


def _identify(call: ToolCall) -> str:
    return identify([call.name, call.arguments])
