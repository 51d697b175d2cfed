"""Holding back what the mask cannot hold alone, until it is complete and checked.

What is sent on is never taken back. So the events of a value with a keyword that is only checked
wait, from the token that begins it to the one behind it; those of a call, where the keyword
concerns all of it; and those of an answer. What does not fit is a fault, and says from where on the
turn would have to be written again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from constrained.answers import read_answer
from constrained.decode.events import StreamEvent
from constrained.errors import ReplyError
from constrained.logits import TokenDrawn
from grammars.lowering.checked import Held
from grammars.schema.nodes import Schema
from grammars.turn import (
    ArgumentEnd,
    ArgumentsDelta,
    ArgumentStart,
    Boundary,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    JsonAnswer,
    ToolCall,
)

CheckedPart: TypeAlias = tuple[int, str | None]
"""What waits: the number of a call, and an argument of it (None: all); -1 is the answer."""

ANSWER: CheckedPart = (-1, None)
_OPENERS = ("{", "[", '{"', '["', '"')


@dataclass(frozen=True)
class Watch:
    """The schemas that a turn is checked against.

    Args:
        tools: the schema of each strict tool, and which of its arguments wait for their check.
        answer: what the content has to be, if that waits for its check.
    """

    tools: Mapping[str, tuple[Schema, Held]] = field(default_factory=dict[str, tuple[Schema, Held]])
    answer: JsonAnswer | None = None


@dataclass(frozen=True)
class Fault:
    """Something that does not fit.

    Args:
        what: which value, call or answer.
        since: how many tokens of the turn come before it; None: it has been sent.
        is_final: the call or answer is complete.
    """

    what: CheckedPart
    since: int | None
    is_final: bool


class EventBuffer:
    """Lets the events of one turn through, in order, as soon as they may be sent.

    Args:
        watch: what has to be checked before.

    Attributes:
        fault: the first thing that did not fit; nothing is let through from then on.
    """

    def __init__(self, watch: Watch):
        self._watch = watch
        self._queue: list[StreamEvent] = []
        self._content: list[str] = []
        # Of the call under way: which arguments are checked, by which schema (None: no more).
        self._checked = Held()
        self._schema: Schema | None = None
        self._index = -1
        # So many tokens came before the one that told of the call, and before the one that first
        # told of its arguments; -1: none has.
        self._opened_at = -1
        self._arguments_at = -1
        self._waiting: CheckedPart | None = None
        self._since: int | None = None  # so many tokens come before what waits
        self.fault: Fault | None = None

    def take(self, events: Sequence[StreamEvent], place: int, began: int) -> Sequence[StreamEvent]:
        """Notes the events of one token; returns what may be sent.

        Args:
            events: what was read.
            place: how many tokens of the turn come before this one.
            began: how many come before the call or answer that began last.
        """
        for event in events:
            self._note(event, place, began)
            if isinstance(event, CallCut) and self._waiting is not None:  # it never became whole
                waiting = [*self._queue, *events]
                self._queue = [one for one in waiting if isinstance(one, TokenDrawn)]
                self._waiting = None
                events = (event,)
        self._queue += events
        # What begins in the token that ends another value has to be written again with that one:
        # so the place is forgotten only here.
        return self._release() if self._waiting is None else ()

    def close(self, *, is_whole: bool) -> Sequence[StreamEvent]:
        """The turn is over; returns what may be sent.

        Args:
            is_whole: it was not cut.
        """
        if self._waiting == ANSWER and self._watch.answer is not None and is_whole:
            try:
                read_answer(self._watch.answer, "".join(self._content))
            except ReplyError:
                self._blame(ANSWER, is_final=True)
            self._waiting = None
        return self._release() if self._waiting is None else ()

    def _release(self) -> Sequence[StreamEvent]:
        self._since = None
        sent, self._queue = self._queue, []
        return () if self.fault else sent

    def _note(self, event: StreamEvent, place: int, began: int) -> None:
        match event:
            case CallOpened(index, name):
                self._open(index, name, place)
            case ArgumentsDelta():
                self._read(event, place, began)
            case CallRead(index, call):
                self._finish(index, call, began)
            case ContentDelta(text) if self._watch.answer is not None:
                if not self._content:
                    is_opener = text.strip() in _OPENERS
                    self._hold(ANSWER, place + 1 if is_opener else began)
                self._content.append(text)
            case _:
                pass

    def _open(self, index: int, name: str, place: int) -> None:
        self._schema, self._checked = self._watch.tools.get(name, (None, Held()))
        self._index = index
        self._opened_at = place
        self._arguments_at = -1
        if self._checked.whole:
            self._hold((index, None), place + 1)

    def _read(self, delta: ArgumentsDelta, place: int, began: int) -> None:
        if self._arguments_at < 0:
            self._arguments_at = place
            if self._checked.whole:
                self._since = self._find_start(delta.text, place, began)
        if not self._checked or self._schema is None:
            return
        if self._checked.whole:
            self._keep_first_key(delta.boundaries, place)
            return
        for boundary in delta.boundaries:
            self._pass(boundary, self._schema, place, began)

    def _keep_first_key(self, boundaries: Sequence[Boundary], place: int) -> None:
        """A call is written again from its first value on, where that has just begun: its keys in
        another order would be another text, but no other call."""
        if boundaries:
            self._schema = None  # the members behind it do not matter
            if not any(isinstance(boundary, ArgumentEnd) for boundary in boundaries):
                self._since = place

    def _pass(self, boundary: Boundary, schema: Schema, place: int, began: int) -> None:
        part = (self._index, boundary.key)
        match boundary:
            case ArgumentStart(key):
                if self._checked.holds(key):
                    self._hold(part, self._find_place(place, began))
            case ArgumentEnd(key, value):
                if self._waiting != part:
                    return
                (member,) = schema.find_members(key)
                if member is None or member.admits(value):
                    self._waiting = None
                else:
                    self._blame(part)

    def _find_start(self, text: str, place: int, began: int) -> int:
        """The place to write all arguments again from, told that they begin with this text."""
        if text.strip() in _OPENERS:
            return place + 1
        return self._opened_at + 1 if self._opened_at < place else began

    def _find_place(self, place: int, began: int) -> int:
        """The place to write a value again from. Some formats tell of arguments only when they are
        complete; then that is where the arguments begin."""
        return place if self._arguments_at < place else self._find_start("", place, began)

    def _hold(self, part: CheckedPart, since: int) -> None:
        self._waiting = part
        self._since = since if self._since is None else min(since, self._since)

    def _finish(self, index: int, call: ToolCall, began: int) -> None:
        """A call is complete. One that was not told of before begins where the parser says."""
        if call.name in self._watch.tools and not call.valid:
            if index != self._index:
                self._since = began
            self._blame((index, None), is_final=True)
        self._waiting, self._checked, self._schema = None, Held(), None

    def _blame(self, part: CheckedPart, *, is_final: bool = False) -> None:
        """The first fault of a turn counts; what follows only completes it."""
        fault = self.fault or Fault(part, self._since, is_final)
        self.fault = replace(fault, is_final=fault.is_final or is_final)
