"""Reads the calls of a turn: those that share an opener, and what closes them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from grammars.parse.calls import CallReader, find_closers, find_openings
from grammars.parse.envelopes import MAX_HELD, EnvelopeReader, WholeCalls
from grammars.parse.output import TurnOutput
from grammars.parse.render import render_opening
from grammars.spelling.buffer import Buffer, CutError, NotACallError, Steps
from grammars.turn import ArgumentsDelta, Boundary, CallCut, CallOpened, CallRead, Tool, ToolCall
from grammars.turn_grammar.arguments.kind import CallSource
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.turn_grammar.arguments.stream import CallSink
from grammars.wire.envelopes import ForeignCall
from grammars.wire.format import CallNode, Format, JsonCall, spell_fixed


class CallGroups:
    """Reads calls and emits them."""

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
        self._others: ContentLines | None = None  # where calls in other envelopes may be
        self._is_open = False  # a call that is not complete has been emitted
        self.is_in_call = False
        self.begun = 0  # where the last call or the answer began, in characters of the turn
        self.ends: list[int] = []  # where each call ends, in characters of the turn
        self.use(format)

    def use(self, format: Format) -> None:
        self.format = format
        self.reader = self.make_reader(format)
        self.openings = find_openings(format, recover=self._recover)
        self._ways: Sequence[Sequence[CallNode]] = (format.call,)  # to write a further call
        if self._recover:
            self._ways = (format.call, *format.variants) if format.headers is None else ()
        self.closers = find_closers(format)
        self._output.after_calls = format.after if format.has_content_after_calls else ""

    def recognise(self, others: "ContentLines") -> None:
        self._others = others

    def make_reader(self, format: Format) -> CallReader:
        sink = CallSink(self._open_call, self._add_arguments, self._streams)
        return CallReader(format, CallSource(self._buffer, self._tools, self._recover, sink))

    def opens_calls(self) -> Steps[bool]:
        """Returns whether the text begins with an opener of calls, and not of content
        (`>>>all`)."""
        openings = tuple(opening.lstrip() for opening in self.format.openings)
        longer = [o for o in self.format.content_openers if o.startswith(openings)]
        if longer and (yield from self._buffer.peek_text(*longer)):
            return False
        return (yield from self._buffer.peek_text(*openings))

    def read_bare_calls(self) -> Steps[None]:
        """Reads calls without opener; in recovery any number, even without the bracket of their
        list."""
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
        """Tries to read the calls after an opener; returns whether they are calls. `stop` ends with
        it."""
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
        """Reads the calls that share the opener of the first one, and what closes them."""
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
        """Reads the calls after the first one of a group with a common opener, and its closer."""
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


class ContentLines:
    """Reads the beginnings of lines. `tools`: those whose calls are read, by name; none: no line
    begins an envelope. `recover`: all text is there, so calls are read to their end."""

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
        self.found: ForeignCall | None = None  # a call at whose arguments reading stops
        self.body_start = 0  # where content or calls begin, in characters

    @property
    def sees_envelopes(self) -> bool:
        """True if a call in another envelope may begin with the next line."""
        if not self._is_used or self._output.is_inside or self._output.in_thoughts:
            return False
        return self._recover or not self._output.count

    def read(self, stop: str) -> Steps[None]:
        """Reads what begins a line: calls in other envelopes, a fence, or text; `stop`: the line
        break."""
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
        yield from self._buffer.take_while(lambda next: next in " \t", MAX_HELD - 3)
        return (yield from self._buffer.begins("```"))

    def read_envelopes(self, before: str = "") -> Steps[bool]:
        """Tries to read calls in other envelopes; returns whether there is one. `before`: the text
        that was taken, which is no content if there is a call."""
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
            for parts in found.calls:
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
