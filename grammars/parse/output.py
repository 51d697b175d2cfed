"""The events of a turn: text becomes reasoning or content, depending on where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from grammars.turn import ContentDelta, Event, ReasoningDelta
from grammars.wire.format import Content


@dataclass
class PendingCalls:
    """Calls inside a reasoning block, in recovery mode.

    If the model continues after the block, it was only thinking about these calls. If it never
    closes the block, or ends the turn right after it, it means them. So their events wait until
    this is known.
    """

    count: int  # of the calls before them
    blank: str | None  # the pending white space before them
    events: list[Event] = field(default_factory=list[Event])  # to emit if the calls are meant


class TurnOutput:
    """Collects the events of one turn. `inline`: emit the reasoning block as content, with its
    tags."""

    def __init__(self, *, inline: bool):
        self.in_block = False
        self.in_thoughts = False  # between tags that the format does not know
        self.wrapping: Content | None = None  # how the current content is written
        self.count = 0
        # White space that becomes content if more content follows; None: content has begun.
        self.blank: str | None = ""
        self.after_calls = ""  # what the template writes before content there; it is none
        self.has_content = False  # other than white space
        self.pending: PendingCalls | None = None
        self._inline = inline
        self._events: list[Event] = []

    @property
    def is_inside(self) -> bool:
        """True inside the reasoning block, and after a call in it that is still pending."""
        return self.in_block or self.pending is not None

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def add(self, event: Event) -> None:
        events = self._events if self.pending is None else self.pending.events
        events.append(event)

    def show(self, tags: str) -> None:
        """Adds the tags of a reasoning block, if reasoning is content."""
        if self._inline and tags:
            self.blank = None
            self.add(ContentDelta(tags))

    def write(self, text: str) -> None:
        """Adds text outside of calls."""
        if not text:
            return
        if self.in_block and self._inline:
            self.add(ContentDelta(text))
            return
        if self.in_block or self.in_thoughts:
            self.add(ReasoningDelta(text))
            return
        if self.blank is not None:
            text = self.blank + text
            self.blank = text if text.isspace() else None
            if self.count:
                text = text.removeprefix(self.after_calls)
        if self.blank is None:
            self.has_content = True
            self.add(ContentDelta(text))

    def begin_content(self, wrapping: Content) -> None:
        """Begins content after its opener, also amid a thought."""
        self.wrapping, self.blank = wrapping, None
        self.in_block = self.in_thoughts = False

    def end_content(self) -> None:
        self.wrapping, self.blank = None, ""

    def begin_pending(self) -> None:
        self.pending = PendingCalls(self.count, self.blank)

    def release(self) -> None:
        if self.pending is not None:
            self._events += self.pending.events
            self.pending = None

    def forget_pending(self) -> None:
        """Drops the pending events: the text of these calls is reasoning."""
        assert self.pending is not None
        self.count, self.blank = self.pending.count, self.pending.blank
        self.pending, self.in_block = None, True

    def close(self) -> None:
        """Ends the turn: white space is content if there is nothing else."""
        if self.blank and not self.count:
            self.add(ContentDelta(self.blank))


T = TypeVar("T")


class AnswerText:
    """Removes the white space in front of the content of a turn that is one JSON value."""

    def __init__(self) -> None:
        self._has_begun = False  # a character other than white space has come

    def take(self, events: Sequence[T]) -> list[T | ContentDelta]:
        """Returns the events with the content that is left; all others pass."""
        passed: list[T | ContentDelta] = []
        for event in events:
            if self._has_begun or not isinstance(event, ContentDelta):
                passed.append(event)
                continue
            text = event.text.lstrip()
            if text:
                self._has_begun = True
                passed.append(ContentDelta(text))
        return passed
