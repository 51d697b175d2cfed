"""Push parser: text -> events, in linear time. The events do not depend on the chunks."""

from collections.abc import Collection, Sequence

from grammars.parse.groups import CallGroups, ContentLines
from grammars.parse.output import TurnOutput
from grammars.parse.reasoning import ReasoningReader
from grammars.parse.render import render_opening
from grammars.spelling.buffer import Buffer, CutError, Steps
from grammars.turn import Event, State, Tool, Turn, collect
from grammars.wire.envelopes import ForeignCall
from grammars.wire.format import MAX_NAME_LENGTH, Content, Format
from grammars.wire.variants import MessageHeader


class ContentReader:
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
        """Continues after an opener of calls that begins one of content, too (`>>>` of `>>>all`);
        returns whether that has begun."""
        for wrapping in self._groups.format.contents:
            if not wrapping.opener.startswith(opening):
                continue
            rest = wrapping.opener.removeprefix(opening)
            if (yield from self._buffer.accept(rest, after_space=False)):
                yield from self.begin(wrapping)
                return True
        return False

    def read_answer(self) -> Steps[None]:
        """Reads an answer up to the end of the turn. A closer may also occur in a string of it."""
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
        """Returns the texts that end the message or begin the next one; as `TextStops.find`."""
        ends, starts = self._ends, self._headers.starts
        if self._output.in_block:  # in which the words of a recipient are text
            starts = (self._headers.start, self._headers.channel)
        if self._output.in_block or self._is_spaced:
            ends = (f" {self._headers.end}", *ends)
        return ends + starts

    def read(self, stop: str, *, calls: bool) -> Steps[tuple[str, str] | None]:
        """Continues after one of these texts. If a call begins, returns its header and the tool's
        name."""
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


class TextStops:
    """Finds the texts that may end the current text. `thoughts`, `ends`: as in `Parser`."""

    def __init__(
        self,
        groups: CallGroups,
        output: TurnOutput,
        *,
        recover: bool,
        thoughts: tuple[str, str] | None,
        ends: tuple[str, ...],
    ):
        self._groups = groups
        self._output = output
        self._recover = recover
        self._thoughts = thoughts
        self._ends = ends

    @property
    def strays(self) -> tuple[str, ...]:
        """The markers of a reasoning block that may occur anywhere in a turn."""
        format = self._groups.format
        if not self._recover or format.reasoning is None or not format.strays:
            return ()
        return (format.reasoning.opener.text, *format.strays)

    def find(self, *, calls: bool, lines: bool) -> tuple[str, ...]:
        """Returns these texts. `lines`: a call in another envelope may begin with the next line."""
        format, output = self._groups.format, self._output
        wrapping = output.wrapping
        openings: tuple[str, ...] = ()
        if calls:  # what may come before each is a part of it
            befores = format.list_befores(amid_content=wrapping is not None and not self._recover)
            openings = tuple(
                before + opener for opener in self._groups.openings for before in befores
            )
        if output.is_inside and format.reasoning is not None:
            closers = format.reasoning.closers
            if not self._recover:
                return closers
            others = [opening for opening in openings if not opening.startswith(closers)]
            return (*closers, *others, *format.tagged_openers)
        breaks = ("\n",) if lines else ()
        if wrapping is not None:
            if not self._recover and (not wrapping.calls or wrapping.closer):
                openings = ()
            closers = (wrapping.closer,) if wrapping.closer else ()
            return (*closers, *openings, *format.inner_ends, *self._ends, *breaks)
        tail = (format.tail,) if format.tail else ()
        outside = (*openings, *format.content_openers, *format.inner_ends, *tail, *self.strays)
        if output.in_thoughts and self._thoughts:  # the grammar allows calls there, too
            closer = self._thoughts[1]
            outside = (f"\n{closer}", closer, *outside)
        return (*outside, *self._ends, *breaks)


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
        self._ends = tuple(ends)
        thoughts = None if answer else thoughts
        self._buffer = Buffer()
        self._output = TurnOutput(inline=inline)
        self._headers: HeaderReader | None = None
        if recover and format.headers is not None:
            self._headers = HeaderReader(format, self._buffer, self._output, self._tools)
        self._reasoning = ReasoningReader(
            self._state,
            self._buffer,
            self._output,
            block=format.reasoning,
            thoughts=thoughts,
            recover=recover,
        )
        self._groups = CallGroups(
            format,
            self._buffer,
            self._output,
            self._tools,
            recover=recover,
            # If the turn may be an answer, a call without a marker is certain only when complete.
            streams=stream and not recover and not (answer and format.bare),
        )
        self._stops = TextStops(
            self._groups, self._output, recover=recover, thoughts=thoughts, ends=self._ends
        )
        self._content = ContentReader(self._buffer, self._output, self._groups, self._reasoning)
        names = foreign or (self._tools if recover and not answer else ())
        known = {name: self._tools[name] for name in names if calls}
        self._lines = ContentLines(self._buffer, self._output, self._groups, known, recover=recover)
        if known:
            self._groups.recognise(self._lines)
        self.is_over = False
        self._steps = self._read_turn()
        next(self._steps)

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
        block = self._groups.format.reasoning
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

    def _read_turn(self) -> Steps[None]:
        """Reads what may come before content (a header, the opener of reasoning), then the text."""
        yield
        if self._state.lead:
            self._buffer.unread(self._state.lead)
        else:
            yield from self._buffer.skip_one(self._state.header)
            yield from self._reasoning.read_head()
        if self._reasoning.may_be_cut:
            self._groups.cut_tag()
        if self._state.lead or not (self._output.in_block or self._output.in_thoughts):
            yield from self._read_body()
        yield from self._read_text()

    def _read_text(self) -> Steps[None]:
        reader = self._headers or self._stops
        while True:
            stops = reader.find(calls=self._calls, lines=self._lines.sees_envelopes)
            stop = yield from self._buffer.until(stops, self._output.write)
            if stop is None:
                break
            if stop in self._ends:
                self.is_over = True
                self._reasoning.release()
                return
            yield from self._read_stop(stop)
        if not self._groups.cut_tag():
            self._output.write(self._buffer.drain())
        self._reasoning.release()
        self._output.close()

    def _read_body(self) -> Steps[None]:
        """Reads a call without opener, or an answer, which are possible only after the
        reasoning."""
        format = self._groups.format
        yield from self._buffer.skip_one(format.head)
        self._groups.begun = self._lines.body_start = self._buffer.position
        bare = format.bare
        if self._answer and (bare is None or not self._calls):
            self._calls = self._calls and (yield from self._groups.opens_calls())
            if not self._calls:
                yield from self._content.read_answer()
        elif not self._calls:
            return
        elif bare is not None:
            yield from self._groups.read_bare_calls()
        yield from self._lines.read("")

    def _read_stop(self, stop: str) -> Steps[None]:
        if self._headers is not None:
            call = yield from self._headers.read(stop, calls=self._calls)
            if call is not None:
                ways = ((self._groups.format.hole,),)
                yield from self._groups.read_call(call[0], ways, name=call[1])
            return
        is_block = self._output.is_inside
        if (yield from self._reasoning.close(stop)):
            if is_block or self._recover:  # after other thoughts, the grammar requires a marker
                yield from self._read_body()
            return
        if stop == "\n" and self._lines.sees_envelopes:
            yield from self._lines.read(stop)
            return
        format = self._groups.format
        openings = [opening for opening in self._groups.openings if stop.endswith(opening)]
        if openings and self._calls:
            yield from self._read_opener(stop, max(openings, key=len))
        elif stop in self._stops.strays:
            yield from self._reasoning.read_stray(stop)
        elif self._output.wrapping is not None and not self._output.is_inside:
            self._output.end_content()
        elif stop != format.tail and stop not in format.inner_ends:
            wrapping = next(c for c in format.contents if c.opener == stop)
            yield from self._content.begin(wrapping)
            if not wrapping.escaped:
                yield from self._lines.read("")

    def _read_opener(self, stop: str, opening: str) -> Steps[None]:
        """Continues after an opener of calls, or of content that begins in the same way."""
        self._output.wrapping = None
        if (yield from self._content.read_longer_opener(opening)):
            return
        if self._recover and self._output.in_block and self._output.pending is None:
            steps = self._groups.read_calls(stop, self._groups.openings[opening])
            yield from self._reasoning.read_pending(stop, steps)
            return
        is_call = yield from self._groups.read_opened(stop, opening)
        if is_call and not self._recover:
            self._output.in_thoughts = False

    @property
    def foreign_call(self) -> ForeignCall | None:
        """The beginning of a call in another envelope, where reading has stopped, or None."""
        return self._lines.found

    def go_on(self, found: ForeignCall, *, drops_rest: bool = False) -> list[Event]:
        """Reads the rest of the turn in the envelope of a call whose `format` is known, from its
        arguments on; returns the events that are now certain. `drops_rest`: the text that is not
        read yet belongs to the beginning of the call."""
        assert found.format is not None
        self._lines.found = None
        if drops_rest:
            self._buffer.drain()
        self._groups.use(found.format)
        self._reasoning.block = found.format.reasoning
        self._buffer.unread(render_opening(found.format, found.tool))
        self._steps = self._read_text()
        return self._advance()

    def decline(self) -> list[Event]:
        """Reads `foreign_call` as text; returns the events that are now certain."""
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
