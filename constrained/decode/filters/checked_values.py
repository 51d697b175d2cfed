"""Values that the mask cannot enforce alone are buffered until they are complete and checked.

Events that were sent are never taken back. So the events of a value with a keyword that is only
checked wait, from the token that begins it to the one behind it; those of a call, where the keyword
concerns all of it; and those of an answer. A value that does not fit is a fault, which says from
which token on the turn would have to be written again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from constrained.answers import read_answer
from constrained.decode.filters.events import StreamEvent
from constrained.errors import ReplyError
from constrained.logits import TokenDrawn
from grammars.lowering.checked import CheckedArguments
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
"""The number of a call, and an argument of it (None: all); -1 is the answer."""

ANSWER: CheckedPart = (-1, None)
_OPENERS = ("{", "[", '{"', '["', '"')


@dataclass(frozen=True)
class CheckedSchemas:
    """The schemas that a turn is checked against.

    Args:
        tools: the schema of each strict tool, and those of its arguments that wait for their check.
        answer: the schema of the content, if that waits for its check.
    """

    tools: Mapping[str, tuple[Schema, CheckedArguments]] = field(
        default_factory=dict[str, tuple[Schema, CheckedArguments]]
    )
    answer: JsonAnswer | None = None


@dataclass(frozen=True)
class Fault:
    """Something that does not fit.

    Args:
        what: the value, call or answer.
        since: its position in the turn, in tokens; None: it has been sent.
        is_final: the call or answer is complete.
    """

    what: CheckedPart
    since: int | None
    is_final: bool


class EventBuffer:
    """Lets the events of one turn through, in order, as soon as they may be sent.

    Args:
        schemas: the schemas to check against.

    Attributes:
        fault: the first thing that did not fit; nothing is let through from then on.
    """

    def __init__(self, schemas: CheckedSchemas):
        self._schemas = schemas
        self._queue: list[StreamEvent] = []
        self._content: list[str] = []
        # Of the call under way: which arguments are checked, by which schema (None: no more).
        self._checked = CheckedArguments()
        self._schema: Schema | None = None
        self._index = -1
        # Positions in the turn, in tokens: of the token that is read, of the call or answer that
        # began last, of the token that brought the call and of the one that brought its first
        # arguments (-1: none has).
        self._position = 0
        self._first_token = 0
        self._opened_at = -1
        self._arguments_at = -1
        self._waiting: CheckedPart | None = None
        self._since: int | None = None  # so many tokens come before what waits
        self.fault: Fault | None = None

    def take(
        self, events: Sequence[StreamEvent], position: int, first_token: int
    ) -> Sequence[StreamEvent]:
        """Notes the events of one token; returns those that may be sent.

        Args:
            events: those that were read in the token.
            position: of the token in the turn.
            first_token: the position of the first token of the call or answer that began last.
        """
        self._position = position
        self._first_token = first_token
        for event in events:
            self._note(event)
            if isinstance(event, CallCut) and self._waiting is not None:  # it never became whole
                waiting = [*self._queue, *events]
                self._queue = [one for one in waiting if isinstance(one, TokenDrawn)]
                self._waiting = None
                events = (event,)
        self._queue += events
        # A value that begins in the token that ends another one has to be written again with that
        # one: so `_since` is forgotten only here.
        return self._release()

    def close(self, *, is_whole: bool) -> Sequence[StreamEvent]:
        """The turn is over; returns the events that may be sent.

        Args:
            is_whole: it was not cut.
        """
        if self._waiting == ANSWER and self._schemas.answer is not None and is_whole:
            try:
                read_answer(self._schemas.answer, "".join(self._content))
            except ReplyError:
                self._blame(ANSWER, is_final=True)
            self._waiting = None
        return self._release()

    def _release(self) -> Sequence[StreamEvent]:
        """The events that have waited, unless a value still does."""
        if self._waiting is not None:
            return ()
        self._since = None
        sent, self._queue = self._queue, []
        return () if self.fault else sent

    def _note(self, event: StreamEvent) -> None:
        match event:
            case CallOpened(index, name):
                self._open(index, name)
            case ArgumentsDelta():
                self._read(event)
            case CallRead(index, call):
                self._finish(index, call)
            case ContentDelta(text) if self._schemas.answer is not None:
                if not self._content:
                    is_opener = text.strip() in _OPENERS
                    self._wait(ANSWER, self._position + 1 if is_opener else self._first_token)
                self._content.append(text)
            case _:
                pass

    def _open(self, index: int, name: str) -> None:
        self._schema, self._checked = self._schemas.tools.get(name, (None, CheckedArguments()))
        self._index = index
        self._opened_at = self._position
        self._arguments_at = -1
        if self._checked.whole:
            self._wait((index, None), self._position + 1)

    def _read(self, delta: ArgumentsDelta) -> None:
        if self._arguments_at < 0:
            self._arguments_at = self._position
            if self._checked.whole:
                self._since = self._find_start(delta.text)
        if not self._checked or self._schema is None:
            return
        if self._checked.whole:
            self._keep_first_key(delta.boundaries)
            return
        for boundary in delta.boundaries:
            self._pass(boundary, self._schema)

    def _keep_first_key(self, boundaries: Sequence[Boundary]) -> None:
        """A call is written again from its first value on, where that has just begun: its keys in
        another order would be another text, but no other call."""
        if not boundaries:
            return
        self._schema = None  # the members behind it do not matter
        if all(isinstance(boundary, ArgumentStart) for boundary in boundaries):
            self._since = self._position

    def _pass(self, boundary: Boundary, schema: Schema) -> None:
        part = (self._index, boundary.key)
        match boundary:
            case ArgumentStart(key):
                if self._checked.covers(key):
                    self._wait(part, self._find_value_start())
            case ArgumentEnd(key, value):
                if self._waiting != part:
                    return
                (member,) = schema.find_members(key)
                if member is None or member.admits(value):
                    self._waiting = None
                else:
                    self._blame(part)

    def _find_start(self, text: str) -> int:
        """The position to write all arguments again from, which begin with this text."""
        if text.strip() in _OPENERS:
            return self._position + 1
        if self._opened_at < self._position:
            return self._opened_at + 1
        return self._first_token

    def _find_value_start(self) -> int:
        """The position to write a value again from. The arguments of some formats come only when
        they are complete; then it is the position of their first one."""
        if self._arguments_at < self._position:
            return self._position
        return self._find_start("")

    def _wait(self, part: CheckedPart, since: int) -> None:
        self._waiting = part
        if self._since is None or since < self._since:
            self._since = since

    def _finish(self, index: int, call: ToolCall) -> None:
        """A call is complete. One that was not opened before begins where the parser says."""
        if call.name in self._schemas.tools and not call.valid:
            if index != self._index:
                self._since = self._first_token
            self._blame((index, None), is_final=True)
        self._waiting, self._checked, self._schema = None, CheckedArguments(), None

    def _blame(self, part: CheckedPart, *, is_final: bool = False) -> None:
        """The first fault of a turn counts; what follows only completes it."""
        fault = self.fault or Fault(part, self._since, is_final)
        self.fault = replace(fault, is_final=fault.is_final or is_final)
