"""Stop texts: the content of a turn ends before the first of them.

Text that may be the beginning of a stop text is held back until that is decided. Another event,
such as a call, ends a text: a stop text is not found across it.
"""

from collections.abc import Sequence
from typing import Any

from constrained.decode.filters.events import StreamEvent
from constrained.errors import RequestError
from constrained.mask.logprobs import TokenDrawn
from grammars.turn import ContentDelta

MAX_STOPS = 16
MAX_CHARACTERS = 1_000  # of a stop text: other requests wait while its search table is built


def read_stops(given: Any) -> tuple[str, ...]:
    """Reads the stop texts of a request: one text, a list of texts, or None."""
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
    """Searches for one stop text (Knuth, Morris, Pratt).

    Attributes:
        length: how many of its first characters the text read so far ends with.
    """

    def __init__(self, stop: str):
        self.stop = stop
        self.length = 0
        self._shorter = [0]  # for each length, minus 1: the next shorter one that also fits
        for character in stop[1:]:
            self.length = self._shorter[-1]
            self.feed(character)
            self._shorter.append(self.length)
        self.length = 0

    def feed(self, character: str) -> bool:
        """Reads a character; True if it completes the stop text."""
        if self.length == len(self.stop):
            self.length = self._shorter[-1]
        while self.length and self.stop[self.length] != character:
            self.length = self._shorter[self.length - 1]
        if self.stop[self.length] == character:
            self.length += 1
        return self.length == len(self.stop)


class StopFilter:
    """Passes the events of one turn, in order, up to the first stop text.

    The stop text that begins first counts; of two that begin together, the shorter one. This does
    not depend on how the text is cut into events.

    Attributes:
        passed: all events that may be sent.
    """

    def __init__(self, stops: Sequence[str]):
        self._scans = [_Scan(stop) for stop in stops]
        self.found: str | None = None
        self.passed: list[StreamEvent] = []
        self._begin()

    def _begin(self) -> None:
        for scan in self._scans:
            scan.length = 0
        self._end = 0  # characters of the text
        self._queue: list[tuple[int, StreamEvent]] = []  # with their positions in the text
        self._match: tuple[int, str] | None = None  # may still turn out not to be the first one

    def take(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Takes the next events; returns those that may be sent."""
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
                    sent += self._end_text()
                    if self.found is None:
                        sent.append(event)
        sent += self._release(self._safe)
        self.passed += sent
        return sent

    def close(self, *, is_whole: bool = True) -> list[StreamEvent]:
        """Ends the turn; returns the events that were held back and may be sent."""
        sent = self._end_text()
        self.passed += sent
        return sent

    def _end_text(self) -> list[StreamEvent]:
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
        """The first position at which an incomplete stop text may have begun."""
        return self._end - max((scan.length for scan in self._scans), default=0)

    @property
    def _safe(self) -> int:
        """The position up to which no stop text has begun."""
        if self._match is None:
            return self._first_open
        return min(self._first_open, self._match[0])

    def _release(self, end: int) -> list[StreamEvent]:
        """Removes and returns the events before this position. A `TokenDrawn` is before it if its
        text begins there, or if no text is held back."""
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
