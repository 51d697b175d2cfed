"""Passes a streamed JSON answer without the white space that the model has put before it."""

from collections.abc import Sequence
from typing import TypeVar

from grammars.turn import ContentDelta

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
