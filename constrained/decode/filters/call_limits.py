"""The limits of the calls of a turn: how many, and how often the same one.

Small models that have to call a tool may write their first call again and again until the tokens
run out, for the grammar takes any number of calls. So calls are counted as they become complete,
and the decoder ends a turn behind the last one that it may have. The events of a call that may
still turn out to be the same once too often wait until it differs: nothing that was sent is ever
taken back. Calls of earlier turns may count, too; if the first call of the turn is one of those,
the decoder goes back in front of it.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from constrained.decode.filters.events import StreamEvent
from constrained.job import CallLimits
from constrained.logits import TokenDrawn
from grammars.schema.nodes import identify
from grammars.turn import ArgumentEnd, ArgumentsDelta, CallCut, CallOpened, CallRead, ToolCall


class CallLimiter:
    """Lets the events of one turn through, in order, up to the last call that it may have.

    Args:
        limits: of the turn.

    Attributes:
        last: the number, from 0, of the call behind which the turn has to end; nothing is let
            through from there on. None: it need not end so far.
        barred: the first call of the turn, if it is an excluded one; nothing is let through until
            the turn goes back, or `admit_barred` is called.
    """

    def __init__(self, limits: CallLimits):
        self._limits = limits
        self._counts = Counter[str]()
        # The arguments of calls that must not come again, by tool; each value as `identify` has it.
        self._exhausted: dict[str, list[Mapping[str, str]]] = defaultdict(list)
        self._candidates: list[Mapping[str, str]] = []  # those that the call under way may become
        self._waiting: list[StreamEvent] = []
        self._index = -1  # of the call under way
        self._is_behind_call = False
        self.last: int | None = None
        self.barred: ToolCall | None = None
        self._excluded: set[str] = set()
        for call in limits.excluded:
            self._excluded.add(_identify(call))
            self._exhaust(call)

    def _exhaust(self, call: ToolCall) -> None:
        """This call must not come again."""
        arguments = {name: identify(value) for name, value in call.arguments.items()}
        self._exhausted[call.name].append(arguments)

    @property
    def suspect(self) -> int | None:
        """The number of the call under way, as long as it may become one too many."""
        return self._index if self._candidates else None

    def take(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Notes what was read; returns what may be sent."""
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
        """The turn has its excluded call after all; returns what has waited."""
        self.barred = None
        waiting, self._waiting = self._waiting, []
        return waiting

    def close(self) -> Sequence[StreamEvent]:
        """The turn is over; returns what has waited."""
        if self.last is not None or self.barred is not None:
            return ()
        waiting, self._waiting = self._waiting, []
        return waiting

    def _may_begin_call(self, event: StreamEvent) -> bool:
        """True if nothing but this token has come behind a call, and the next one may be one too
        many: what stands between them goes with it. So does what opens the first call."""
        if not self._exhausted or not isinstance(event, TokenDrawn):
            return False
        return self._is_behind_call or (self._index < 0 and bool(self._excluded))

    def _note(self, event: StreamEvent) -> None:
        if not isinstance(event, TokenDrawn):
            self._is_behind_call = isinstance(event, CallRead)
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
