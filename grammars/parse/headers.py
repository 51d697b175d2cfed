"""Reads message headers from the push buffer, for formats in which each part of a turn is a
message."""

from collections.abc import Sequence

from grammars.spelling.buffer import Buffer, CutError, Steps
from grammars.wire.format import MAX_NAME_LENGTH
from grammars.wire.variants import MessageHeader, MessageHeaders


class HeaderReader:
    """Reads headers in recovery mode, since models write them in many ways.

    Args:
        headers: how the format writes headers.
        buffer: the text.
        ends: the texts that end a turn, but also occur inside one.
    """

    def __init__(self, headers: MessageHeaders, buffer: Buffer, ends: Sequence[str]):
        self.headers = headers
        self._buffer = buffer
        self._ends = (f" {headers.end}", headers.end, *ends)

    def find_stops(self, *, is_thought: bool) -> tuple[str, ...]:
        """Returns the texts that end the current message or begin the next one."""
        if is_thought:  # in which the words of a recipient are text
            return (*self._ends, self.headers.start, self.headers.channel)
        return (*self._ends, *self.headers.starts)

    def read(self, stop: str) -> Steps[tuple[str, MessageHeader] | None]:
        """Takes the header that begins with `stop`, up to the message; takes nothing if it is not a
        header. At the end of the text, it may be cut after the role."""
        self._buffer.mark()
        headers, text = self.headers, stop
        try:
            while not text.endswith(headers.body) and len(text) <= MAX_NAME_LENGTH:
                yield from self._buffer.need()
                text += self._buffer.take(1)
            header = headers.read(text.removesuffix(headers.body))
        except CutError:
            is_role = text.split() == (headers.start + headers.role).split()
            header = headers.read(text) if is_role else None
        taken = self._buffer.forget()
        if header is None:
            self._buffer.unread(taken)
            return None
        return text, header
