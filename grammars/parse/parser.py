"""Push parser: text -> events, in linear time. The events do not depend on the chunks."""

from collections.abc import Collection, Sequence

from grammars.parse.envelopes import EnvelopeReader
from grammars.parse.groups import CallGroups
from grammars.parse.headers import HeaderReader
from grammars.parse.lines import ContentLines
from grammars.parse.output import TurnOutput
from grammars.parse.render import render_opening
from grammars.parse.stops import TextStops
from grammars.spelling.buffer import Buffer, CutError, Steps
from grammars.turn import (
    Event,
    Start,
    State,
    Tool,
    Turn,
    collect,
    find_reasoning_start,
)
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.wire.envelopes import ForeignCall
from grammars.wire.format import Content, Format, JsonCall, Reasoning


class Parser:
    """Reads one assistant turn.

    Args:
        format: the wire format.
        tools: the tools of the request, for types and validity.
        state: where the rendered prompt ends.
        recover: also read common deviations as calls (a missing opener or closer, a call inside the
            reasoning). Off for text that a mask has constrained.
        calls: look for calls at all.
        answer: the turn is either calls or an answer of another form: text that does not begin like
            a call contains none.
        stream: emit calls and their arguments while they are written, not only when they are
            complete. Only for text that a mask has constrained: a call that turns out not to be one
            ends with `CallCut`.
        thoughts: opener and closer of thoughts in ordinary text, at the beginning of a turn. They
            are reasoning, even if the text or a call ends them. Ignored with `answer`.
        inline: emit the reasoning block as content, as it is written, with its tags; also with the
            opener if the prompt has written it.
        ends: texts that end the turn outside of reasoning and calls.
        foreign: names of the tools whose calls are also found in other envelopes than the format's
            (`grammars.wire.envelopes`). In recovery, all are. If not, reading stops at the
            arguments of such a call (`foreign_call`): what stands there has to be decided first.

    Attributes:
        is_over: one of `ends` was read; later text is ignored.
    """

    def __init__(
        self,
        format: Format,
        tools: Sequence[Tool] = (),
        state: State | None = None,
        *,
        recover: bool = False,
        calls: bool = True,
        answer: bool = False,
        stream: bool = False,
        thoughts: tuple[str, str] | None = None,
        inline: bool = False,
        ends: Sequence[str] = (),
        foreign: Collection[str] = (),
    ):
        self._tools = {tool.name: tool for tool in tools}
        self._state = state or State()
        self._recover = recover
        self._calls = calls
        self._answer = answer
        self._thoughts = None if answer else thoughts
        self._ends = tuple(ends)
        self._buffer = Buffer()
        self._headers: HeaderReader | None = None
        if recover and format.headers is not None:
            self._headers = HeaderReader(format.headers, self._buffer, format.inner_ends)
        self._start = find_reasoning_start(format.reasoning, self._state)
        self._output = TurnOutput(in_block=self._start.is_open, inline=inline)
        self._groups = CallGroups(
            format,
            self._buffer,
            self._output,
            self._tools,
            recover=recover,
            # If the turn may be an answer, a call without a marker is certain only when complete.
            streams=stream and not recover and not (answer and format.bare),
        )
        self._use_format(format)
        self._lines: ContentLines | None = None
        if calls and (foreign or (recover and tools and not answer)):
            self._lines = self._make_lines(foreign or tuple(self._tools))
            self._groups.recognise(self._lines)
        self._wrapping: Content | None = None  # of the current content
        self.is_over = False
        self._steps = self._read_turn()
        next(self._steps)

    def _use_format(self, format: Format) -> None:
        """Reads calls in this format from now on."""
        self._format = format
        self._stops = TextStops(
            format,
            tuple(self._groups.openings),
            recover=self._recover,
            thoughts=self._thoughts,
            ends=self._ends,
        )

    def _make_lines(self, names: Collection[str]) -> ContentLines:
        known = {name: self._tools[name] for name in names}
        own = () if self._recover else tuple(opener.strip() for opener in self._groups.openings)
        envelopes = EnvelopeReader(self._buffer, known, own=own, whole=self._recover)
        return ContentLines(self._buffer, self._output, envelopes, self._groups)

    @property
    def output_start(self) -> int:
        """Where the last call or the answer began, in characters of the turn. For a call, the
        offset after its opener; if it is not streamed, after its name."""
        return self._groups.begun

    @property
    def call_ends(self) -> Sequence[int]:
        """For each call, the offset of its end, in characters of the turn."""
        return self._groups.ends

    @property
    def is_in_call(self) -> bool:
        """True if the text so far ends inside a call."""
        return self._groups.is_in_call

    @property
    def is_reasoning(self) -> bool:
        """True if the text so far ends inside the reasoning block of the format."""
        return self._output.in_block

    @property
    def closer(self) -> str:
        """The closer of the reasoning block; "" if the format has none."""
        block = self._format.reasoning
        return block.closer.text if block else ""

    def feed(self, text: str) -> list[Event]:
        """Reads the next text; returns the events that are now certain."""
        self._buffer.push(text)
        return self._advance()

    def close(self) -> list[Event]:
        """Ends the text; returns the remaining events."""
        self._buffer.closed = True
        return self._advance()

    def _advance(self) -> list[Event]:
        next(self._steps, None)
        return self._output.take()

    # The turn, from its beginning to its end.

    def _read_turn(self) -> Steps[None]:
        yield
        if self._state.lead:
            self._buffer.unread(self._state.lead)
            yield from self._read_body()
        else:
            yield from self._read_head()
        yield from self._read_text()

    def _read_text(self) -> Steps[None]:
        """Reads text and calls up to the end of the turn."""
        write = self._output.write
        while (stop := (yield from self._buffer.until(self._find_stops(), write))) is not None:
            if stop in self._ends:
                self.is_over = True
                self._release()
                return
            yield from self._read_stop(stop)
        if not self._groups.cut_tag():
            self._output.write(self._buffer.drain())
        self._release()
        self._output.close()

    def _read_head(self) -> Steps[None]:
        """Reads what may come before content: a header that the prompt lacks, padding, and the
        opener of a reasoning block."""
        if self._state.header:
            yield from self._buffer.accept(self._state.header)
        if self._state.start is Start.OPEN:
            self._show_opener()
        if self._state.start is not Start.PLAIN:
            self._buffer.record()
            yield from self._buffer.skip(self._state.pad)
            pad = self._buffer.recorded()
            if self._output.in_block:
                self._output.show(pad)
        if self._format.reasoning is not None:
            yield from self._read_block_start(self._format.reasoning)
        if not self._output.in_block:
            yield from self._read_thoughts_opener()
        if not self._output.in_block and not self._output.in_thoughts:
            yield from self._read_body()

    def _read_block_start(self, block: Reasoning) -> Steps[None]:
        """Reads the opener of the reasoning block, or what stands instead of a block."""
        opener = block.opener.text.lstrip()
        instead = self._start.instead
        may_open = self._start.may_open or (self._recover and not self._output.in_block)
        self._buffer.record()
        if may_open and (yield from self._buffer.accept(opener)):
            self._output.in_block = True
            yield from self._buffer.skip(block.pad_open)
        elif instead and (yield from self._buffer.accept(*instead)):
            yield from self._buffer.skip(block.after)
        self._output.show(self._buffer.recorded())
        if self._start.may_open and not self._output.in_block and self._buffer.closed:
            self._groups.cut_tag()

    def _show_opener(self) -> None:
        """Emits the part of the reasoning block that the prompt has written, if reasoning is
        content."""
        block = self._format.reasoning
        if block is not None:
            self._output.show(block.head.removesuffix(self._state.pad))

    def _read_thoughts_opener(self) -> Steps[None]:
        """Reads the opener of thoughts between tags that the format does not know."""
        if self._thoughts and self._thoughts[0]:
            self._output.in_thoughts = yield from self._buffer.accept(self._thoughts[0])
        if self._output.in_thoughts:
            yield from self._buffer.skip("\n")

    def _read_body(self) -> Steps[None]:
        """Reads what is possible only directly after the reasoning: a call without opener, or an
        answer."""
        if self._format.head:
            yield from self._buffer.accept(self._format.head)
        self._groups.begun = self._buffer.position
        if self._lines is not None:
            self._lines.body_start = self.output_start
        bare = self._format.bare
        if self._answer and (bare is None or not self._calls):
            self._calls = self._calls and (yield from self._opens_calls())
            if not self._calls:
                yield from self._read_answer()
        elif not self._calls:
            return
        elif bare is not None:
            yield from self._read_bare_calls()
        yield from self._read_line_start("")

    def _opens_calls(self) -> Steps[bool]:
        """Returns whether the text begins with an opener of calls, and not with an opener of
        content (`>>>all`)."""
        openings = tuple(opening.lstrip() for opening in self._format.openings)
        longer = [o for o in self._format.content_openers if o.startswith(openings)]
        if longer and (yield from self._buffer.peek_text(*longer)):
            return False
        return (yield from self._buffer.peek_text(*openings))

    def _read_answer(self) -> Steps[None]:
        """Reads an answer up to the end of the turn. A closer may also occur in a string of the
        answer."""
        wrapping, tail = self._format.contents[0], self._format.tail
        if wrapping.opener:
            if not (yield from self._buffer.accept(wrapping.opener)):
                return
            self._output.blank = None
            self._groups.begun = self._buffer.position
        if wrapping.escaped:
            yield from self._begin_content(wrapping)
            return
        closers = (wrapping.closer + tail, wrapping.closer, tail, *self._format.inner_ends)
        ends = tuple(closer for closer in closers if closer)
        while (stop := (yield from self._buffer.until(ends, self._output.write))) is not None:
            try:
                yield from self._buffer.need()
            except CutError:
                return
            self._output.write(stop)

    def _read_bare_calls(self) -> Steps[None]:
        """Reads calls without opener, as many as the format allows. In recovery: any number, even
        without the opening bracket of their list."""
        format, start = self._format, self._format.bare_start
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
                    yield from self._groups.read_calls("", (following,))
            if self._output.count == count:
                return
            is_first = False

    # Text up to a stop: an opener, a closer or an end.

    def _find_stops(self) -> tuple[str, ...]:
        """Returns the texts that end the current text."""
        if self._headers is not None:
            return self._headers.find_stops(is_thought=self._output.in_block)
        lines = self._sees_envelopes
        return self._stops.find(self._output, self._wrapping, calls=self._calls, lines=lines)

    @property
    def _sees_envelopes(self) -> bool:
        """True if a call in another envelope may begin with the next line."""
        if self._lines is None or self._output.is_inside or self._output.in_thoughts:
            return False
        return self._recover or not self._output.count

    def _read_stop(self, stop: str) -> Steps[None]:
        """Continues after one of `_find_stops`."""
        if self._headers is not None:
            yield from self._read_message_stop(stop, self._headers)
            return
        block = self._format.reasoning
        if self._output.is_inside and block is not None and stop in block.closers:
            yield from self._close_block(stop, block)
            return
        if self._output.in_thoughts and self._thoughts and stop.endswith(self._thoughts[1]):
            self._output.in_thoughts = False
            yield from self._buffer.skip("\n\n")
            if self._recover:  # the grammar requires a marker here
                yield from self._read_body()
            return
        if stop == "\n" and self._sees_envelopes:
            yield from self._read_line_start(stop)
            return
        openings = [opening for opening in self._groups.openings if stop.endswith(opening)]
        if openings and self._calls:
            yield from self._read_opener(stop, max(openings, key=len))
        elif stop in self._stops.strays:
            yield from self._read_stray(stop)
        elif self._wrapping is not None and not self._output.is_inside:
            self._wrapping, self._output.blank = None, ""
        elif stop != self._format.tail and stop not in self._format.inner_ends:
            wrapping = next(c for c in self._format.contents if c.opener == stop)
            yield from self._begin_content(wrapping)
            if not wrapping.escaped:
                yield from self._read_line_start("")

    def _close_block(self, stop: str, block: Reasoning) -> Steps[None]:
        """Continues after the closer of the reasoning block."""
        if self._output.pending is not None:
            if (yield from self._buffer.peek(self._buffer.next_visible())):
                self._output.forget_pending()
                self._output.write(self._buffer.recorded().removesuffix(stop))
            else:
                self._release()
        self._output.in_block = False
        self._buffer.record(stop.removesuffix(block.next_opener))
        yield from self._buffer.skip(block.after)
        self._output.show(self._buffer.recorded())
        yield from self._read_body()

    def _read_stray(self, stop: str) -> Steps[None]:
        """Continues after a marker of the reasoning block that is not at the beginning of the
        turn."""
        block = self._format.reasoning
        if block is None or stop != block.opener.text:
            return
        self._output.in_block = True
        self._buffer.record(stop)
        yield from self._buffer.skip(block.pad_open)
        self._output.show(self._buffer.recorded())

    def _read_opener(self, stop: str, opening: str) -> Steps[None]:
        """Continues after an opener of calls, or of content that begins in the same way."""
        self._wrapping = None
        for wrapping in self._format.contents:  # `>>>all`, where `>>>` opens calls
            if not wrapping.opener.startswith(opening):
                continue
            rest = wrapping.opener.removeprefix(opening)
            if (yield from self._buffer.accept(rest, after_space=False)):
                yield from self._begin_content(wrapping)
                return
        if self._recover and self._output.in_block and self._output.pending is None:
            yield from self._read_pending_calls(stop, opening)
            return
        if self._has_content_inside(opening) and not (yield from self._read_inside()):
            return
        is_call = yield from self._groups.read_calls(stop, self._groups.openings[opening])
        if is_call and not self._recover:
            self._output.in_thoughts = False

    def _has_content_inside(self, opening: str) -> bool:
        own = self._format.opener is not None and opening == self._format.opener.text
        return own and self._format.has_content_inside

    def _read_inside(self) -> Steps[bool]:
        """Reads content between the opener of the calls and the first call; returns False if the
        text ends in it."""
        closer = self._format.opening[1].text
        stop = yield from self._buffer.until((closer,), self._output.write)
        if stop is None:
            return False
        self._buffer.unread(stop)
        return True

    def _read_pending_calls(self, stop: str, opening: str) -> Steps[None]:
        """Tries to read a call inside the reasoning block; its events are pending."""
        self._output.begin_pending()
        self._buffer.record(stop)
        if (yield from self._groups.read_calls(stop, self._groups.openings[opening])):
            self._output.in_block = False  # a call ends the block, unless the closer follows
        else:
            self._release()

    def _release(self) -> None:
        """Emits the pending calls."""
        if self._output.pending is not None:
            self._output.release()
            self._buffer.recorded()

    # Messages with headers, in recovery.

    def _read_message_stop(self, stop: str, messages: HeaderReader) -> Steps[None]:
        """Continues after a text that ends a message or begins one."""
        headers = messages.headers
        if stop not in headers.starts:
            if self._output.in_block:
                self._output.show(stop)
            self._output.in_block, self._output.blank = False, ""
            return
        if (found := (yield from messages.read(stop))) is None:
            self._output.write(stop)
            return
        text, header = found
        self._output.in_block = False
        tool = headers.find_tool(header.recipient, self._tools)
        is_call = tool in self._tools or header.recipient.startswith(headers.tools)
        if tool is not None and not is_call:  # code may be its message: `to=python code`
            is_call = yield from self._buffer.peek_text("{")
        if tool is not None and is_call and self._calls:
            yield from self._groups.read_call(text, ((self._format.hole,),), name=tool)
            return
        self._output.blank = None
        self._output.in_block = header.channel in headers.thoughts
        if self._output.in_block:
            self._output.show(text)
        if header.is_spaced:
            yield from self._buffer.skip(" ")

    def _begin_content(self, wrapping: Content) -> Steps[None]:
        """Begins content, also amid a thought; if it is in a JSON string, reads all of it."""
        self._release()
        self._wrapping, self._output.blank = wrapping, None
        self._output.in_block = self._output.in_thoughts = False
        if wrapping.escaped:
            yield from self._buffer.escaped(wrapping.closer, self._output.write)
            self._wrapping, self._output.blank = None, ""

    # Calls in other envelopes.

    def _read_line_start(self, stop: str) -> Steps[None]:
        """Continues where a line begins; `stop`: the line break, "": the content begins here."""
        if self._lines is None or not self._sees_envelopes:
            self._output.write(stop)
            return
        yield from self._lines.read(stop, [opener.lstrip() for opener in self._groups.openings])

    @property
    def foreign_call(self) -> ForeignCall | None:
        """The beginning of a call in another envelope, where reading has stopped, or None."""
        return None if self._lines is None else self._lines.found

    def go_on(self, found: ForeignCall, *, drops_rest: bool = False) -> list[Event]:
        """Reads the rest of the turn in the envelope of a call, from its arguments on.

        Args:
            found: the call, whose `format` is known.
            drops_rest: the text that is not read yet belongs to the beginning of the call.

        Returns:
            the events that are now certain.
        """
        assert found.format is not None
        assert self._lines is not None
        self._lines.found = None
        self._buffer.forget()
        if drops_rest:
            self._buffer.drain()
        self._groups.use(found.format)
        self._use_format(found.format)
        self._buffer.unread(render_opening(found.format, found.tool))
        self._steps = self._read_text()
        return self._advance()

    def decline(self) -> list[Event]:
        """Reads `foreign_call` as text; returns the events that are now certain."""
        assert self._lines is not None
        self._lines.found = None
        return self._advance()


def parse(
    text: str,
    format: Format,
    tools: Sequence[Tool] = (),
    state: State | None = None,
    *,
    recover: bool = False,
    thoughts: tuple[str, str] | None = None,
    inline: bool = False,
) -> Turn:
    """Reads a whole turn at once; arguments as for `Parser`."""
    parser = Parser(format, tools, state, recover=recover, thoughts=thoughts, inline=inline)
    return collect([*parser.feed(text), *parser.close()])
