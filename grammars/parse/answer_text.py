"""Writes a streamed JSON answer as its schema means it: with the numbers of the schema, as those of
arguments, and without the white space that the model has put before it."""

from collections.abc import Sequence
from typing import TypeVar

from grammars.parse.buffer import JsonScanner
from grammars.parse.number_normaliser import NumberNormaliser
from grammars.schema.nodes import Schema
from grammars.turn import ContentDelta

T = TypeVar("T")
ALL_LEVELS = 1 << 30


class AnswerText:
    """Rewrites the content of a turn that is one JSON value. A number waits until it is complete.
    Text that is not JSON passes unchanged, without the white space before it.

    Args:
        schema: of the value.
    """

    def __init__(self, schema: Schema):
        self._scanner = JsonScanner(levels=ALL_LEVELS)
        self._numbers = NumberNormaliser(schema)
        self._has_begun = False  # a character other than white space has come
        self._is_over = False

    def take(self, events: Sequence[T]) -> list[T | ContentDelta]:
        """Returns the events with the content that is ready; all others pass."""
        passed = list[T | ContentDelta]()
        for event in events:
            if isinstance(event, ContentDelta):
                text = self._rewrite(event.text)
                if text:
                    passed.append(ContentDelta(text))
            else:
                passed.append(event)
        return passed

    def close(self) -> list[ContentDelta]:
        """Returns the rest of the content."""
        rest = self._end()
        return [ContentDelta(rest)] if rest else []

    def _rewrite(self, text: str) -> str:
        if not self._has_begun:
            text = text.lstrip()
            self._has_begun = bool(text)
        if self._is_over:
            return text
        try:
            end = self._scanner.feed(text, 0)
        except ValueError:
            return self._end() + text
        if end is None:
            return self._numbers.feed(text, self._scanner.signs)
        return self._numbers.feed(text[:end], self._scanner.signs) + self._end() + text[end:]

    def _end(self) -> str:
        """Returns what is held back; the text after it passes unchanged."""
        if self._is_over:
            return ""
        self._is_over = True
        return self._numbers.close()
