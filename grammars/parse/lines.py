"""Lines of content: each may begin a call in another envelope than the model's own, or a fence."""

from collections.abc import Mapping
from dataclasses import replace

from grammars.parse.envelopes import MAX_HELD, EnvelopeReader, WholeCalls
from grammars.parse.groups import CallGroups
from grammars.parse.output import TurnOutput
from grammars.parse.render import render_opening
from grammars.spelling.buffer import Buffer, Steps
from grammars.turn import Tool
from grammars.turn_grammar.arguments.kind import CallParts
from grammars.wire.envelopes import ForeignCall
from grammars.wire.format import spell_fixed


class ContentLines:
    """Reads the beginnings of lines.

    Args:
        tools: those whose calls are read, by name; none: no line begins an envelope.
        recover: all text is there, so calls are read to their end.

    Attributes:
        found: the beginning of a call in another envelope, at which reading stops.
        body_start: where content or calls begin, in characters.
    """

    def __init__(
        self,
        buffer: Buffer,
        output: TurnOutput,
        groups: CallGroups,
        tools: Mapping[str, Tool],
        *,
        recover: bool,
    ):
        self._buffer = buffer
        self._output = output
        self._groups = groups
        self._recover = recover
        self._is_used = bool(tools)
        own = () if recover else tuple(opener.strip() for opener in groups.openings)
        self._envelopes = EnvelopeReader(buffer, tools, own=own, whole=recover)
        self._unclosed: list[str] = []  # closers of envelopes, the next one last
        self._is_fenced = False  # inside a fence of Markdown
        self._blank_until = 0  # up to this position, lines are blank
        self.found: ForeignCall | None = None
        self.body_start = 0

    @property
    def sees_envelopes(self) -> bool:
        """True if a call in another envelope may begin with the next line."""
        if not self._is_used or self._output.is_inside or self._output.in_thoughts:
            return False
        return self._recover or not self._output.count

    def read(self, stop: str) -> Steps[None]:
        """Reads what begins a line: calls in other envelopes, a fence, or text; `stop`: the line
        break, "": the content begins here."""
        if not self.sees_envelopes or self._buffer.position < self._blank_until:
            self._output.write(stop)
            return
        own = [opener.lstrip() for opener in self._groups.openings]
        is_own = False
        if own and self._recover:  # in a stream, the reader of envelopes looks for it
            is_own = yield from self._buffer.peek_text(*own)
        is_text = self._is_fenced or is_own
        if is_text or not (yield from self.read_envelopes(stop)):
            self._output.write(stop)
            # What follows blank lines was looked for behind all of them.
            most = None if self._recover else MAX_HELD
            self._blank_until = self._buffer.position + self._buffer.count_blank_lines(most)
        if (yield from self._buffer.peek(self._sees_fence())):
            self._is_fenced = not self._is_fenced

    def _sees_fence(self) -> Steps[bool]:
        """Returns whether the line begins with a fence."""
        yield from self._buffer.take_while(lambda next: next in " \t", MAX_HELD - 3)
        return (yield from self._buffer.begins("```"))

    def read_envelopes(self, before: str = "") -> Steps[bool]:
        """Tries to read calls in other envelopes, as many as there are; returns whether there is
        one. `before`: the text before them that was taken, and that is no content if there is a
        call."""
        separator = before
        is_found = False
        while (yield from self._find_envelope(separator)):
            is_found = True
            while self._unclosed and (yield from self._buffer.accept_loosely(self._unclosed[-1])):
                self._unclosed.pop()
            yield from self._groups.closers.skip(self._buffer)
            separator = yield from self.take_separator()
        self._unclosed.clear()
        if is_found:
            self._output.write(separator)
        return is_found

    def read_further_objects(self) -> Steps[None]:
        """Reads JSON calls after the first one between one pair of tags."""
        if not (yield from self._buffer.peek_text("{", ",", ";")):
            return
        separator = yield from self.take_separator()
        if not (yield from self.read_envelopes(separator)):
            self._buffer.unread(separator)

    def take_separator(self) -> Steps[str]:
        """Takes what models write between two calls; "": nothing."""
        for text in (",", ";"):
            if (yield from self._buffer.accept(text)):
                return text
        return ""

    def _find_envelope(self, before: str) -> Steps[bool]:
        self._buffer.mark()
        found = yield from self._buffer.attempt(self._envelopes.read(before))
        taken = self._buffer.forget()
        if found is None:
            return False
        if isinstance(found, WholeCalls):
            for whole in found.calls:
                parts = CallParts(whole.name, whole.id, arguments=whole.arguments)
                self._groups.close_call(self._groups.reader.finish(parts))
            self._unclosed += found.closers
            return True
        if self._recover:
            return (yield from self._read_rest(found, taken))
        start = found.start if self._output.has_content else self.body_start
        self.found = replace(found, start=start)
        while self.is_undecided:  # until it is declined, or the parser takes another way
            yield
        self._buffer.unread(taken)
        return False

    @property
    def is_undecided(self) -> bool:
        """True if the text stands at the arguments of a call in another envelope."""
        return self.found is not None

    def _read_rest(self, found: ForeignCall, taken: str) -> Steps[bool]:
        """Tries to read the rest of a call that is not JSON; `taken`: the text of its beginning."""
        format = found.format
        if format is not None:
            lead = render_opening(format, found.tool)
            self._buffer.unread(lead)
            reader = self._groups.make_reader(format)
            nodes = (*format.opening, *format.call)
            call = yield from self._buffer.attempt(reader.read(nodes))
            if call is not None:
                self._groups.close_call(call)
                self._unclosed.append(spell_fixed(format.closing))
                return True
            self._buffer.take(len(lead))
        self._buffer.unread(taken)
        return False
