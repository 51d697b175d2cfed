"""Reads content with openers and closers, and answers that are the rest of a turn."""

from grammars.parse.groups import CallGroups
from grammars.parse.output import TurnOutput
from grammars.parse.reasoning import ReasoningReader
from grammars.spelling.buffer import Buffer, Steps
from grammars.wire.format import Content


class ContentReader:
    """Reads what opens content."""

    def __init__(
        self, buffer: Buffer, output: TurnOutput, groups: CallGroups, reasoning: ReasoningReader
    ):
        self._buffer = buffer
        self._output = output
        self._groups = groups
        self._reasoning = reasoning

    def begin(self, wrapping: Content) -> Steps[None]:
        """Begins content after its opener; if it is in a JSON string, reads all of it."""
        self._reasoning.release()
        self._output.begin_content(wrapping)
        if wrapping.escaped:
            yield from self._buffer.escaped(wrapping.closer, self._output.write)
            self._output.end_content()

    def read_longer_opener(self, opening: str) -> Steps[bool]:
        """Continues after an opener of calls with which an opener of content begins, too (`>>>all`,
        where `>>>` opens calls); returns whether content has begun."""
        for wrapping in self._groups.format.contents:
            if not wrapping.opener.startswith(opening):
                continue
            rest = wrapping.opener.removeprefix(opening)
            if (yield from self._buffer.accept(rest, after_space=False)):
                yield from self.begin(wrapping)
                return True
        return False

    def read_answer(self) -> Steps[None]:
        """Reads an answer up to the end of the turn, if its opener comes next. A closer may also
        occur in a string of the answer."""
        format = self._groups.format
        wrapping, tail = format.contents[0], format.tail
        if wrapping.opener:
            if not (yield from self._buffer.accept(wrapping.opener)):
                return
            self._output.blank = None
            self._groups.begun = self._buffer.position
        if wrapping.escaped:
            yield from self.begin(wrapping)
            return
        closers = (wrapping.closer + tail, wrapping.closer, tail, *format.inner_ends)
        ends = tuple(closer for closer in closers if closer)
        while (stop := (yield from self._buffer.until(ends, self._output.write))) is not None:
            if not (yield from self._buffer.peek(self._buffer.need())):
                return
            self._output.write(stop)
