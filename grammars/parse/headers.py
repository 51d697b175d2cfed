"""Reads message headers, for formats in which each part of a turn is a message."""

from collections.abc import Collection

from grammars.parse.output import TurnOutput
from grammars.spelling.buffer import Buffer, CutError, Steps
from grammars.wire.format import MAX_NAME_LENGTH, Format
from grammars.wire.variants import MessageHeader


class HeaderReader:
    """Reads headers in recovery mode, since models write them in many ways."""

    def __init__(self, format: Format, buffer: Buffer, output: TurnOutput, tools: Collection[str]):
        assert format.headers is not None
        self._headers = format.headers
        self._buffer = buffer
        self._output = output
        self._tools = tools
        self._ends = (self._headers.end, *format.inner_ends)
        self._is_spaced = False  # a space stands at both ends of the message

    def find(self, *, calls: bool, lines: bool) -> tuple[str, ...]:
        """Returns the texts that end the current message or begin the next one; as
        `TextStops.find`."""
        ends, starts = self._ends, self._headers.starts
        if self._output.in_block:  # in which the words of a recipient are text
            starts = (self._headers.start, self._headers.channel)
        if self._output.in_block or self._is_spaced:
            ends = (f" {self._headers.end}", *ends)
        return ends + starts

    def read(self, stop: str, *, calls: bool) -> Steps[tuple[str, str] | None]:
        """Continues after one of these texts. If a call begins, and there may be `calls`, returns
        its header and the name of the tool."""
        output, headers = self._output, self._headers
        if stop not in headers.starts:
            if output.in_block:
                output.show(stop)
            output.in_block, output.blank = False, ""
            return None
        found = yield from self._buffer.attempt(self._read_header(stop))
        if found is None:
            output.write(stop)
            return None
        text, header = found
        tool = headers.find_tool(header.recipient, self._tools)
        is_call = tool in self._tools or header.recipient.startswith(headers.tools)
        if tool is not None and not is_call:  # code may be its message: `to=python code`
            is_call = yield from self._buffer.peek_text("{")
        output.in_block = False
        if tool is not None and is_call and calls:
            return text, tool
        output.blank = None
        output.in_block = header.channel in headers.thoughts
        if output.in_block:
            output.show(text)
        self._is_spaced = header.is_spaced
        if header.is_spaced:
            yield from self._buffer.skip(" ")
        return None

    def _read_header(self, stop: str) -> Steps[tuple[str, MessageHeader] | None]:
        """Takes the header that begins with `stop`, up to the message. At the end of the text, it
        may be cut after the role."""
        headers, text = self._headers, stop
        try:
            while not text.endswith(headers.body) and len(text) <= MAX_NAME_LENGTH:
                yield from self._buffer.need()
                text += self._buffer.take(1)
        except CutError:
            if text.split() != (headers.start + headers.role).split():
                return None
        header = headers.read(text.removesuffix(headers.body))
        return None if header is None else (text, header)
