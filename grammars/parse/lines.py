"""Lines of content: each may begin a call in another envelope than the model's own, or a fence."""

from collections.abc import Sequence
from dataclasses import replace

from grammars.parse.envelopes import MAX_HELD, EnvelopeReader, WholeCalls
from grammars.parse.groups import CallGroups
from grammars.parse.output import TurnOutput
from grammars.parse.render import render_opening
from grammars.spelling.buffer import Buffer, CutError, NotACallError, Steps
from grammars.wire.envelopes import ForeignCall
from grammars.wire.format import spell_fixed


class ContentLines:
    """Reads the beginnings of lines.

    Args:
        buffer: the text.
        output: of the parser.
        envelopes: reads the beginning of an envelope.
        groups: reads and emits calls.

    Attributes:
        found: the beginning of a call in another envelope, at which reading stops; None: there is
            none. With an `EnvelopeReader` for whole texts, calls are read to their end instead.
        body_start: where content or calls begin, in characters.
    """

    def __init__(
        self, buffer: Buffer, output: TurnOutput, envelopes: EnvelopeReader, groups: CallGroups
    ):
        self._buffer = buffer
        self._output = output
        self._envelopes = envelopes
        self._groups = groups
        self._unclosed: list[str] = []  # closers of envelopes, the next one last
        self._is_fenced = False  # inside a fence of Markdown
        self._blank_until = 0  # up to this position, lines are blank
        self.found: ForeignCall | None = None
        self.body_start = 0

    def read(self, stop: str, own: Sequence[str]) -> Steps[None]:
        """Reads what begins a line: calls in other envelopes, a fence, or text.

        Args:
            stop: the line break; "": the content begins here.
            own: texts that open calls of the model's own format.
        """
        if self._buffer.position < self._blank_until:
            self._output.write(stop)
            return
        is_own = False
        if own and self._envelopes.reads_whole:  # in a stream, the reader of envelopes looks for it
            is_own = yield from self._buffer.peek_text(*own)
        is_text = self._is_fenced or is_own
        if is_text or not (yield from self.read_envelopes(stop)):
            self._output.write(stop)
            # What follows blank lines was looked for behind all of them.
            most = None if self._envelopes.reads_whole else MAX_HELD
            self._blank_until = self._buffer.position + self._buffer.count_blank_lines(most)
        if (yield from self._buffer.peek(self._sees_fence())):
            self._is_fenced = not self._is_fenced

    def _sees_fence(self) -> Steps[bool]:
        """Returns whether the line begins with a fence."""
        count = 1
        while (yield from self._buffer.need(count))[-1] in " \t":
            count += 1
            if count > MAX_HELD - 2:
                return False
        return (yield from self._buffer.need(count + 2)).endswith("```")

    def read_envelopes(self, before: str = "") -> Steps[bool]:
        """Tries to read calls in other envelopes, as many as there are; returns whether there is
        one.

        Args:
            before: the text before them that was taken, and that is no content if there is a call.
        """
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
        """Tries to read a call in another envelope; returns whether there is one."""
        self._buffer.mark()
        try:
            found = yield from self._envelopes.read(before)
        except (CutError, NotACallError):
            self._buffer.unread(self._buffer.forget())
            return False
        taken = self._buffer.forget()
        if isinstance(found, WholeCalls):
            for whole in found.calls:
                call = self._groups.reader.finish(whole.name, whole.arguments, whole.id)
                self._groups.close_call(call)
            self._unclosed += found.closers
            return True
        if self._envelopes.reads_whole:
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
        """Tries to read the rest of a call that is not JSON.

        Args:
            found: its beginning.
            taken: the text of that.
        """
        format = found.format
        if format is not None:
            lead = render_opening(format, found.tool)
            self._buffer.unread(lead)
            self._buffer.mark()
            reader = self._groups.make_reader(format)
            try:
                call = yield from reader.read((*format.opening, *format.call))
            except (CutError, NotACallError):
                self._buffer.unread(self._buffer.forget())
                self._buffer.take(len(lead))
            else:
                self._buffer.forget()
                self._groups.close_call(call)
                self._unclosed.append(spell_fixed(format.closing))
                return True
        self._buffer.unread(taken)
        return False
