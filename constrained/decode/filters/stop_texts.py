"""Stop texts: the content of a turn ends in front of the first of them.

Text that may be the beginning of a stop text is buffered until that is decided. A text that is
broken by another event, such as a call, is two texts: no stop text is looked for across it.
"""

from collections.abc import Sequence
from typing import Any

from constrained.decode.filters.events import StreamEvent
from constrained.errors import RequestError
from constrained.logits import TokenDrawn
from grammars.turn import ContentDelta

MAX_STOPS = 16
MAX_CHARACTERS = 1_000  # of a stop text: what looks for it is built while others wait


def read_stops(given: Any) -> tuple[str, ...]:
    """The stop texts of a request: one text, several, or None.

    Raises:
        RequestError: they are no texts, too many, or one is empty or too long.
    """
    if given is None:
        return ()
    stops = (given,) if isinstance(given, str) else given
    if not isinstance(stops, Sequence) or not all(isinstance(stop, str) for stop in stops):
        hint = "Use a text, or a list of texts"
        raise RequestError(f"stop is {given!r}", where="/stop", hint=hint)
    if len(stops) > MAX_STOPS:
        message = f"there are {len(stops)} stop texts, the limit is {MAX_STOPS}"
        raise RequestError(message, where="/stop")
    if "" in stops:
        raise RequestError("a stop text is empty", where="/stop", hint="Leave it out")
    longest = max(map(len, stops), default=0)
    if longest > MAX_CHARACTERS:
        message = f"a stop text has {longest:,} characters, the limit is {MAX_CHARACTERS:,}"
        raise RequestError(message, where="/stop", hint="Shorten it")
    return tuple(stops)


class _Scan:
    """The length of the beginning of one stop text that a text ends with (Knuth, Morris, Pratt)."""

    def __init__(self, stop: str):
        self.stop = stop
        self.length = 0
        self._shorter = [0]  # after so many characters: the next shorter beginning that fits
        for character in stop[1:]:
            self.length = self._shorter[-1]
            self.feed(character)
            self._shorter.append(self.length)
        self.length = 0

    def feed(self, character: str) -> bool:
        """Reads on; true if the whole stop text is there."""
        if self.length == len(self.stop):
            self.length = self._shorter[-1]
        while self.length and self.stop[self.length] != character:
            self.length = self._shorter[self.length - 1]
        if self.stop[self.length] == character:
            self.length += 1
        return self.length == len(self.stop)


class StopFilter:
    """Lets the events of one turn through, in order, up to the first stop text.

    The one that begins first counts, and of two that begin together the shorter one, however the
    text is cut.

    Args:
        stops: the texts, none empty.

    Attributes:
        found: the stop text that has ended the turn, if one has.
    """

    def __init__(self, stops: Sequence[str]):
        self._scans = [_Scan(stop) for stop in stops]
        self.found: str | None = None
        self._begin()

    def _begin(self) -> None:
        """Begins another text."""
        for scan in self._scans:
            scan.length = 0
        self._end = 0  # characters of the text
        self._queue: list[tuple[int, StreamEvent]] = []  # with their positions in the text
        self._match: tuple[int, str] | None = None  # may still turn out not to be the first one

    def take(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Reads on; returns the events that may be sent."""
        sent: list[StreamEvent] = []
        for event in events:
            if self.found is not None:
                break
            match event:
                case ContentDelta(text):
                    self._queue.append((self._end, event))
                    self._read(text)
                case TokenDrawn():
                    self._queue.append((self._end, event))
                case _:
                    sent += self.close()
                    if self.found is None:
                        sent.append(event)
        return [*sent, *self._release(self._safe)]

    def close(self) -> list[StreamEvent]:
        """The text is over; returns the events that may be sent."""
        end = self._end
        if self._match is not None:
            end, stop = self._match
            self.found = self.found or stop
        sent = self._release(end)
        self._begin()
        return sent

    def _read(self, text: str) -> None:
        for character in text:
            self._end += 1
            for scan in self._scans:
                if scan.feed(character):
                    self._note(self._end - len(scan.stop), scan.stop)
            if self._match and self._match[0] <= self._first_open:
                self.found = self._match[1]
                return

    def _note(self, start: int, stop: str) -> None:
        if self._match is None or start < self._match[0]:
            self._match = start, stop

    @property
    def _first_open(self) -> int:
        """The first position at which a stop text may have begun."""
        return self._end - max((scan.length for scan in self._scans), default=0)

    @property
    def _safe(self) -> int:
        """The position up to which there is certainly no stop text."""
        if self._match is None:
            return self._first_open
        return min(self._first_open, self._match[0])

    def _release(self, end: int) -> list[StreamEvent]:
        """The events in front of this position. A token is if its text begins there, or if nothing
        is kept back."""
        sent: list[StreamEvent] = []
        while self._queue:
            start, event = self._queue[0]
            is_all = start == end == self._end
            if start >= end and not is_all:
                break
            del self._queue[0]
            if isinstance(event, ContentDelta) and start + len(event.text) > end:
                sent.append(ContentDelta(event.text[: end - start]))
                self._queue.insert(0, (end, ContentDelta(event.text[end - start :])))
                break
            sent.append(event)
        return sent
