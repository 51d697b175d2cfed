"""Reads the calls of a turn: those that share an opener, and what closes them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from grammars.parse.calls import CallReader, find_closers, find_openings, find_ways
from grammars.parse.output import TurnOutput
from grammars.spelling.buffer import Buffer, CutError, NotACallError, Steps
from grammars.turn import ArgumentsDelta, Boundary, CallCut, CallOpened, CallRead, Tool, ToolCall
from grammars.turn_grammar.arguments.kind import CallSource
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.turn_grammar.arguments.stream import CallSink
from grammars.wire.format import CallNode, Format, JsonCall, spell_fixed


class OtherEnvelopes(Protocol):
    """Reads calls in other envelopes, where there may be some instead of the model's own."""

    def read_envelopes(self, before: str = "") -> Steps[bool]:
        """Tries to read calls; returns whether there is one."""
        ...

    def read_further_objects(self) -> Steps[None]:
        """Reads JSON calls after the first one between one pair of tags."""
        ...


class CallGroups:
    """Reads calls and emits them.

    Attributes:
        begun: where the last call or the answer began, in characters of the turn.
        ends: for each call, the offset of its end, in characters of the turn.
        is_in_call: the text so far ends inside a call.
    """

    def __init__(
        self,
        format: Format,
        buffer: Buffer,
        output: TurnOutput,
        tools: Mapping[str, Tool],
        *,
        recover: bool,
        streams: bool,
    ):
        self._buffer = buffer
        self._output = output
        self._tools = tools
        self._recover = recover
        self._streams = streams
        self._others: OtherEnvelopes | None = None
        self._is_open = False  # a call that is not complete has been emitted
        self.is_in_call = False
        self.begun = 0
        self.ends: list[int] = []
        self.use(format)

    def use(self, format: Format) -> None:
        """Reads calls in this format from now on."""
        self.format = format
        self.reader = self.make_reader(format)
        self.openings = find_openings(format, recover=self._recover)
        self._ways = find_ways(format, recover=self._recover)
        self.closers = find_closers(format)
        self._output.after_calls = format.after if format.has_content_after_calls else ""

    def recognise(self, others: OtherEnvelopes) -> None:
        self._others = others

    def make_reader(self, format: Format) -> CallReader:
        sink = CallSink(self._open_call, self._add_arguments, self._streams)
        return CallReader(format, CallSource(self._buffer, self._tools, self._recover, sink))

    def opens_calls(self) -> Steps[bool]:
        """Returns whether the text begins with an opener of calls, and not with an opener of
        content (`>>>all`)."""
        openings = tuple(opening.lstrip() for opening in self.format.openings)
        longer = [o for o in self.format.content_openers if o.startswith(openings)]
        if longer and (yield from self._buffer.peek_text(*longer)):
            return False
        return (yield from self._buffer.peek_text(*openings))

    def read_bare_calls(self) -> Steps[None]:
        """Reads calls without opener, as many as the format allows. In recovery: any number, even
        without the opening bracket of their list."""
        format, start = self.format, self.format.bare_start
        nodes = (*format.opening, *format.call)
        starts = dict.fromkeys(find_kind(format).list_starts(self._tools), nodes)
        if self._recover and isinstance(format.bare, JsonCall):
            starts[start[-2:]] = format.call
        if (openers := format.content_openers) and (yield from self._buffer.peek_text(*openers)):
            return  # content may begin with the keys of a call
        is_first = True
        while is_first or self._recover or not (format.single or format.opening):
            count = self._output.count
            for texts, following in starts.items():
                if self._output.count == count and (
                    yield from self._buffer.peek(self._buffer.texts(texts))
                ):
                    yield from self.read_calls("", (following,))
            if self._output.count == count:
                return
            is_first = False

    def read_opened(self, stop: str, opening: str) -> Steps[bool]:
        """Tries to read the calls after an opener, with which the text `stop` that was taken ends;
        returns whether they are calls."""
        format = self.format
        if format.has_content_inside and format.opener and opening == format.opener.text:
            closer = format.opening[1].text
            end = yield from self._buffer.until((closer,), self._output.write)
            if end is None:
                return False
            self._buffer.unread(end)
        return (yield from self.read_calls(stop, self.openings[opening]))

    def read_calls(self, opener: str, ways: Sequence[Sequence[CallNode]]) -> Steps[bool]:
        """Tries to read a call in one of these ways, and the calls that share its opener; returns
        whether it is a call. If it is not, its opener is text, and reading continues after it."""
        if not (yield from self.read_call(opener, ways)):
            return False
        yield from self._read_rest_of_group(opener, ways)
        if self._recover:
            yield from self.closers.skip(self._buffer)
        return True

    def _read_rest_of_group(self, opener: str, ways: Sequence[Sequence[CallNode]]) -> Steps[None]:
        """Reads what belongs to the first call: the calls that share its opener, and what closes
        them."""
        format = self.format
        opens_several = any(
            opener.endswith(opening) and format.opens_several(opening) for opening in self.openings
        )
        if not format.opening and not opens_several:
            if self._others is not None and self._recover and opener:
                yield from self._others.read_further_objects()
            between, closing = format.between.strip(), spell_fixed(format.closing).strip()
            if closing and (yield from self._accept_closing(closing)):
                return
            if closing:
                self._cut_after_call(closing)
            if between and not (yield from self._buffer.accept(between)):  # a header for each call
                self._cut_after_call(between)
            return
        is_bare = format.bare is not None and ways[0] != format.call
        is_opened = format.opener is not None and opener.endswith(format.opener.text)
        if is_bare or is_opened or opens_several or (format.opener is not None and self._recover):
            yield from self._read_further_calls()

    def _read_further_calls(self) -> Steps[None]:
        """Reads the calls after the first one of a group with a common opener, and the closer of
        the group."""
        between, closings = self.format.between.strip(), [self.format.closing]
        if self.format.several is not None:
            between = self.format.several.between.strip()
            closings.insert(0, self.format.several.closing)
        closers = list(filter(None, (spell_fixed(nodes).strip() for nodes in closings)))
        nexts = [text for text in (between, self.format.start) if text]
        while True:
            if self._recover:
                yield from self._buffer.skip_texts(*self.closers.of_call)
            for closer in closers:
                if (yield from self._accept_closing(closer)):
                    return
            if nexts and not (yield from self._buffer.peek_text(*nexts)):
                self._cut_after_call(*closers, between, self.format.start)
                return
            if not nexts and self._cut_after_call(*closers):  # a name comes next, or this
                return
            if not (yield from self.read_call("", self._ways, between)):
                return

    def _accept_closing(self, closing: str) -> Steps[bool]:
        """Takes the closer of the calls. In recovery, it may contain white space."""
        if self._recover:
            return self._buffer.accept_loosely(closing)
        return self._buffer.accept(closing)

    def read_call(
        self,
        opener: str,
        ways: Sequence[Sequence[CallNode]],
        between: str | None = None,
        name: str = "",
    ) -> Steps[bool]:
        """Tries to read one call; returns whether it is one. `between`: the separator from the
        previous call; None: it is the first one. `name`: of the tool, if the opener has it."""
        is_cut, taken = False, ""
        self.is_in_call = True
        self.begun = self._buffer.position
        for nodes in ways:
            self._buffer.mark()
            try:
                if between is not None:  # models write any amount of white space there
                    yield from self._buffer.space()
                if between and (yield from self._buffer.sees(between)):
                    self._buffer.take(len(between))
                    yield from self._buffer.space()
                call = yield from self.reader.read(nodes, name)
                if not opener and between is None and call.name not in self._tools:
                    raise NotACallError  # an object that is not a call
            except (NotACallError, CutError) as e:
                is_cut = is_cut or isinstance(e, CutError)
                taken = self._buffer.forget()
                self._buffer.unread(taken)
                continue
            self._buffer.forget()
            self.close_call(call)
            return True
        if self._recover and self._others is not None:
            self._buffer.unread(opener)
            if (yield from self._others.read_envelopes()):
                return True
            self._buffer.take(len(opener))
        if is_cut:
            self._cut(opener)
        else:
            self._refuse(opener, taken)
        self._is_open = self.is_in_call = False
        return False

    def _open_call(self, name: str) -> None:
        if self._streams:
            self._is_open = True
            self._output.add(CallOpened(self._output.count, name))
        else:
            self.begun = self._buffer.position

    def _add_arguments(self, text: str, boundaries: Sequence[Boundary]) -> None:
        if self._streams and text:
            self._output.add(ArgumentsDelta(self._output.count, text, tuple(boundaries)))

    def close_call(self, call: ToolCall) -> None:
        self._output.add(CallRead(self._output.count, call))
        self.ends.append(self._buffer.position)
        self._output.count += 1
        self._output.blank = ""
        self._is_open = self.is_in_call = False

    def _refuse(self, opener: str, taken: str) -> None:
        """Emits what looked like a call as text; as a cut call, if the call has been emitted."""
        if self._is_open:
            self._output.add(CallCut(opener + self._buffer.take(len(taken))))
            self._output.count += 1
        else:
            self._output.write(opener or self._buffer.take(1))

    def _cut(self, opener: str) -> None:
        """Handles text that ended inside a call."""
        text = opener + self._buffer.drain()
        if self._recover or not text.strip():  # white space after the last call begins no other
            self._output.write(text)
        else:
            self._output.add(CallCut(text))

    def cut_tag(self) -> bool:
        """Handles text that ended inside a tag; returns whether it did.

        The rest is not content if it contains a marker, or if it follows calls and the format has
        no content there. Otherwise it may be content that happens to end like a tag.
        """
        rest = self._buffer.rest
        if self._recover or not rest.strip():
            return False
        is_after = self._output.count and not self.format.has_content_after_calls
        if not is_after and not any(marker in rest for marker in self.format.reserved):
            return False
        self._cut("")
        return True

    def _cut_after_call(self, *texts: str) -> bool:
        """Handles text that ended inside one of the texts that may follow a call: it is not
        content."""
        if self._recover or not self._buffer.closed:
            return False
        rest = self._buffer.rest.strip()
        is_cut = bool(rest) and any(text.startswith(rest) for text in texts)
        if is_cut:
            self._cut("")
        return is_cut
