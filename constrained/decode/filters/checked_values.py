"""Buffers values that the mask cannot fully enforce, until they are complete and checked.

Events that were sent are never taken back. So if a keyword can only be checked, the events of the
value wait until it is complete. If the keyword concerns the whole call or answer, all of its events
wait. A value that does not fit is a fault, which says from which token on the turn has to be
generated again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from constrained.decode.filters.events import StreamEvent
from constrained.errors import ReplyError
from constrained.mask.logprobs import TokenDrawn
from constrained.prompt.answers import read_answer
from grammars.schema.lowering.checked import CheckedArguments
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
        tools: the schema of each strict tool, and which of its arguments are checked.
        answer: the schema of the content, if it is checked.
    """

    tools: Mapping[str, tuple[Schema, CheckedArguments]] = field(
        default_factory=dict[str, tuple[Schema, CheckedArguments]]
    )
    answer: JsonAnswer | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to check."""
        return not self.tools and self.answer is None


@dataclass(frozen=True)
class Fault:
    """A value, call or answer that does not fit its schema.

    Args:
        since: the position of its first token in the turn; None: it has already been sent.
    """

    what: CheckedPart
    since: int | None
    is_final: bool


class ReadPlace(Protocol):
    """Where a turn is while its text is read: the positions of the current token, and of the first
    token of the call or answer that began last."""

    position: int
    output_start: int


class EventBuffer:
    """Passes the events of one turn, in order, once the values they belong to are checked.

    Args:
        content: the beginning of the answer, which the client has written.

    Attributes:
        fault: the first fault; from then on, no event passes.
    """

    def __init__(self, schemas: CheckedSchemas, place: ReadPlace, content: str = ""):
        self._schemas = schemas
        self._place = place
        self._queue: list[StreamEvent] = []
        self._content: list[str] = []
        # Of the current call: the checked arguments, and their schema (None: no more checks).
        self._checked = CheckedArguments()
        self._schema: Schema | None = None
        self._index = -1
        # Positions of tokens in the turn: of the one that opened the call, and of the one with its
        # first arguments (-1: there is none).
        self._opened_at = -1
        self._arguments_at = -1
        self._waiting: CheckedPart | None = None
        self._since: int | None = None  # the number of tokens before the events that wait
        self.fault: Fault | None = None
        if content and schemas.answer is not None:
            self._content.append(content)
            self._wait(ANSWER, 0)

    def take(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Takes the events of one token; returns those that may be sent."""
        for event in events:
            self._note(event)
            if isinstance(event, CallCut) and self._waiting is not None:  # it stays incomplete
                waiting = [*self._queue, *events]
                self._queue = [one for one in waiting if isinstance(one, TokenDrawn)]
                self._waiting = None
                events = (event,)
        self._queue += events
        # If a value begins in the token that ends another one, both have to be generated again. So
        # `_release` resets `_since` only after all events of the token.
        return self._release()

    def close(self, *, is_whole: bool = True) -> Sequence[StreamEvent]:
        """Ends the turn; returns the events that may be sent."""
        if self._waiting == ANSWER and self._schemas.answer is not None and is_whole:
            try:
                read_answer(self._schemas.answer, "".join(self._content))
            except ReplyError:
                self._blame(ANSWER, is_final=True)
            self._waiting = None
        return self._release()

    def _release(self) -> Sequence[StreamEvent]:
        """Returns the events that were held back, unless a value still waits for its check."""
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
                    self._wait(ANSWER, self._find_answer_start(text))
                self._content.append(text)
            case _:
                pass

    def _find_answer_start(self, text: str) -> int:
        """Returns the position from which an answer that begins with this text is generated
        again."""
        if text.strip() in _OPENERS:
            return self._place.position + 1
        return self._place.output_start

    def _open(self, index: int, name: str) -> None:
        self._schema, self._checked = self._schemas.tools.get(name, (None, CheckedArguments()))
        self._index = index
        self._opened_at = self._place.position
        self._arguments_at = -1
        if self._checked.whole:
            self._wait((index, None), self._place.position + 1)

    def _read(self, delta: ArgumentsDelta) -> None:
        if self._arguments_at < 0:
            self._arguments_at = self._place.position
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
        """Notes the start of the first value: the call is generated again from there on. From the
        first key on, it could repeat the same values in another order."""
        if not boundaries:
            return
        self._schema = None  # later members do not matter
        if all(isinstance(boundary, ArgumentStart) for boundary in boundaries):
            self._since = self._place.position

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
        if text.strip() in _OPENERS:
            return self._place.position + 1
        if self._opened_at < self._place.position:
            return self._opened_at + 1
        return self._place.output_start

    def _find_value_start(self) -> int:
        """Returns the position from which a value is generated again. Some formats report arguments
        only when all are complete; then it is the position of the first argument."""
        if self._arguments_at < self._place.position:
            return self._place.position
        return self._find_start("")

    def _wait(self, part: CheckedPart, since: int) -> None:
        self._waiting = part
        if self._since is None or since < self._since:
            self._since = since

    def _finish(self, index: int, call: ToolCall) -> None:
        """Checks a complete call. The parser knows the start of a call that was not opened."""
        if call.name in self._schemas.tools and not call.valid:
            if index != self._index:
                self._since = self._place.output_start
            self._blame((index, None), is_final=True)
        self._waiting, self._checked, self._schema = None, CheckedArguments(), None

    def _blame(self, part: CheckedPart, *, is_final: bool = False) -> None:
        """Notes a fault. The first one of a turn counts; later ones can only make it final."""
        fault = self.fault or Fault(part, self._since, is_final)
        self.fault = replace(fault, is_final=fault.is_final or is_final)
