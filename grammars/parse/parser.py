"""Push parser: text -> events. Total, linear, and the same for every cut into chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grammars.parse.arguments import CallSink
from grammars.parse.buffer import Buffer, CutError, NotACallError, Steps
from grammars.parse.calls import CallReader
from grammars.parse.headers import HeaderReader
from grammars.spelling.keyword_arguments import list_starts, spell_fixed
from grammars.turn import (
    ArgumentsDelta,
    Boundary,
    CallCut,
    CallOpened,
    CallRead,
    ContentDelta,
    Event,
    ReasoningDelta,
    Start,
    State,
    Tool,
    ToolCall,
    Turn,
    collect,
    find_reasoning_start,
)
from grammars.wire.format import CallNode, Content, Format, JsonCall, Reasoning


@dataclass
class _PendingCalls:
    """The calls inside a reasoning block, in recovery. If the model goes on behind the block, it
    has only thought about them; if it never closes the block, or ends the turn behind it, it means
    them. So nobody is told of them before that is known.

    Args:
        count: how many calls there were before.
        blank: the white space under way before.
        events: what to tell if they are meant.
    """

    count: int
    blank: str | None
    events: list[Event] = field(default_factory=list[Event])


class Parser:
    """Reads one assistant turn.

    Args:
        format: the wire format.
        tools: the tools on offer, for types and validity.
        state: where the rendered prompt ends.
        recover: read the variants that models really write as calls (a missing opener or closer,
            a call inside the reasoning). Off for text that a mask has held to the format.
        calls: look for calls at all.
        answer: the turn is either calls or an answer of another form: what does not begin as a
            call holds none.
        stream: tell of a call and its arguments while they are written, not only when it is
            complete. For text that a mask has held to the format: a call that turns out to be
            none is a `CallCut` then.
        thoughts: what opens and closes thoughts in ordinary text, at the head of a turn: they are
            reasoning, also where the text or a call ends them. Not beside an `answer`.
        inline: tell of the reasoning block as content, as it is written, tags included; its opener
            also where the prompt has written that.
        ends: texts that end the turn outside of reasoning and calls.

    Attributes:
        is_over: one of `ends` was read; nothing behind it counts.
        output_start: where the last call or the answer began, in characters of the turn: a call
            behind its opener, or behind its name if it is not streamed.
        call_ends: where each call ended that was read, likewise.
        is_in_call: the text read so far ends inside a call.
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
    ):
        self._format = format
        self._tools = {tool.name: tool for tool in tools}
        self._state = state or State()
        self._recover = recover
        self._calls = calls
        self._answer = answer
        # In front of an answer, a call without a marker is certain only when it is complete.
        self._streams = stream and not recover and not (answer and format.bare)
        self._thoughts = None if answer else thoughts
        self._inline = inline
        self._ends = tuple(ends)
        self._buffer = Buffer()
        self._headers: HeaderReader | None = None
        if recover and format.headers is not None:
            self._headers = HeaderReader(format.headers, self._buffer, format.inner_ends)
        sink = CallSink(self._open_call, self._add_arguments)
        self._reader = CallReader(format, self._buffer, self._tools, recover, sink)
        if self._headers is not None:
            self._openings: Mapping[str, Sequence[Sequence[CallNode]]] = {}
            self._ways: Sequence[Sequence[CallNode]] = ()
        elif recover:
            self._openings = format.recovered
            self._ways = (format.call, *format.variants)
        else:
            self._openings = {opening: (nodes,) for opening, nodes in format.openings.items()}
            self._ways = (format.call,)
        self._start = find_reasoning_start(format.reasoning, self._state)
        self._events: list[Event] = []
        self._pending: _PendingCalls | None = None  # in the reasoning block
        self._count = 0  # of calls
        self._in_block = self._start.is_open  # of reasoning
        self._in_thoughts = False  # between the tags of `thoughts`
        self._is_call_open = False  # an event has told of a call that is not complete
        self.is_in_call = False
        self._wrapping: Content | None = None  # of the content under way
        # White space that is content only if more content follows; None: content has begun.
        self._blank: str | None = ""
        self.is_over = False
        self.output_start = 0
        self.call_ends: list[int] = []
        self._steps = self._turn()
        next(self._steps)

    @property
    def is_reasoning(self) -> bool:
        """Is the text read so far inside the reasoning block of the format?"""
        return self._in_block

    @property
    def closer(self) -> str:
        """What ends the reasoning block; "" where there is none."""
        block = self._format.reasoning
        return block.closer.text if block else ""

    def feed(self, text: str) -> list[Event]:
        """Reads on; returns what has become certain."""
        self._buffer.push(text)
        return self._advance()

    def close(self) -> list[Event]:
        """The text is over; returns the rest."""
        self._buffer.closed = True
        return self._advance()

    def _advance(self) -> list[Event]:
        next(self._steps, None)
        events, self._events = self._events, []
        return events

    # The turn, from its beginning to its end.

    def _turn(self) -> Steps[None]:
        yield
        if self._state.lead:
            self._buffer.unread(self._state.lead)
            yield from self._body()
        else:
            yield from self._head()
        while (stop := (yield from self._buffer.until(self._stops(), self._emit))) is not None:
            if stop in self._ends:
                self.is_over = True
                self._release()
                return
            yield from self._stopped(stop)
        if not self._cut_tag():
            self._emit(self._buffer.drain())
        self._release()
        if self._blank and not self._count:
            self._emit_event(ContentDelta(self._blank))

    def _emit_event(self, event: Event) -> None:
        events = self._events if self._pending is None else self._pending.events
        events.append(event)

    def _head(self) -> Steps[None]:
        """What may stand in front of content: padding, and the opener of a reasoning block."""
        if self._state.start is Start.OPEN:
            self._show_opener()
        if self._state.start is not Start.PLAIN:
            self._buffer.record()
            yield from self._buffer.skip(self._state.pad)
            pad = self._buffer.recorded()
            if self._in_block:
                self._show(pad)
        if self._format.reasoning is not None:
            yield from self._block_start(self._format.reasoning)
        if not self._in_block:
            yield from self._open_thoughts()
        if not self._in_block and not self._in_thoughts:
            yield from self._body()

    def _block_start(self, block: Reasoning) -> Steps[None]:
        """The opener of the reasoning block, or a closer without one."""
        opener = block.opener.text.lstrip()
        may_open = self._start.may_open or (self._recover and not self._in_block)
        self._buffer.record()
        if may_open and (yield from self._buffer.accept(opener)):
            self._in_block = True
            yield from self._buffer.skip(block.pad_open)
        elif self._start.may_close and (yield from self._buffer.accept(block.closer.text)):
            yield from self._buffer.skip(block.after)
        self._show(self._buffer.recorded())
        if self._start.may_open and not self._in_block and self._buffer.closed:
            self._cut_tag()

    def _show_opener(self) -> None:
        """Tells of what the prompt has written of the reasoning block."""
        block = self._format.reasoning
        if block is not None:
            self._show(block.head.removesuffix(self._state.pad))

    def _show(self, tags: str) -> None:
        """Tells of the tags of a reasoning block that is content."""
        if self._inline and tags:
            self._blank = None
            self._emit_event(ContentDelta(tags))

    def _open_thoughts(self) -> Steps[None]:
        """Thoughts between tags that the format does not know."""
        if self._thoughts and self._thoughts[0]:
            self._in_thoughts = yield from self._buffer.accept(self._thoughts[0])
        if self._in_thoughts:
            yield from self._buffer.skip("\n")

    def _body(self) -> Steps[None]:
        """What the place behind the reasoning alone may hold: a call without its opener, or an
        answer in which nothing is a call."""
        if self._format.head:
            yield from self._buffer.accept(self._format.head)
        self.output_start = self._buffer.position
        bare = self._format.bare
        if self._answer and (bare is None or not self._calls):
            self._calls = self._calls and (yield from self._opens_calls())
            if not self._calls:
                yield from self._read_answer()
        elif not self._calls:
            return
        elif bare is not None:
            yield from self._bare_calls()
        elif self._recover:
            yield from self._bare_objects()

    def _opens_calls(self) -> Steps[bool]:
        """Does the text begin with what opens calls, and not content (`>>>all`)?"""
        openings = tuple(opening.lstrip() for opening in self._format.openings)
        openers = [content.opener for content in self._format.contents]
        longer = [opener for opener in openers if opener.startswith(openings)]
        if longer and (yield from self._buffer.peek_text(*longer)):
            return False
        return (yield from self._buffer.peek_text(*openings))

    def _read_answer(self) -> Steps[None]:
        """An answer up to the end of the turn: a closer may also stand in a string of it."""
        wrapping, tail = self._format.contents[0], self._format.tail
        if wrapping.opener:
            if not (yield from self._buffer.accept(wrapping.opener)):
                return
            self._blank = None
            self.output_start = self._buffer.position
        closers = (wrapping.closer + tail, wrapping.closer, tail, *self._format.inner_ends)
        ends = tuple(closer for closer in closers if closer)
        while (stop := (yield from self._buffer.until(ends, self._emit))) is not None:
            try:
                yield from self._buffer.need()
            except CutError:
                return
            self._emit(stop)

    def _bare_calls(self) -> Steps[None]:
        """Calls that no marker opens, as many as the format has; in recovery, any number, and also
        without what opens a list of them."""
        format, start = self._format, self._format.bare_start
        starts = dict.fromkeys(list_starts(format, self._tools), (*format.opening, *format.call))
        if self._recover and isinstance(format.bare, JsonCall):
            starts[start[-2:]] = format.call
        is_first = True
        while is_first or self._recover or not (format.single or format.opening):
            count = self._count
            for texts, nodes in starts.items():
                if self._count == count and (yield from self._buffer.peek(self._sees(texts))):
                    yield from self._attempt("", (nodes,))
            if self._count == count:
                return
            is_first = False

    def _bare_objects(self) -> Steps[None]:
        """JSON objects, perhaps calls without their opener."""
        nodes = self._format.call
        at = next((i for i, node in enumerate(nodes) if isinstance(node, JsonCall)), None)
        while at is not None:
            count = self._count
            if not (yield from self._buffer.peek_text("{")):
                return
            yield from self._attempt("", (nodes[at:],))
            if self._count == count:
                return

    def _sees(self, texts: Sequence[str]) -> Steps[bool]:
        """Do these texts come next, perhaps behind white space?"""
        for part in texts:
            if (yield from self._buffer.space()).strip(" \t\r\n"):
                return False  # white space that JSON does not have
            yield from self._buffer.literal(part)
        return True

    # Text, up to what ends or interrupts it.

    def _stops(self) -> tuple[str, ...]:
        """What ends the text under way."""
        if self._headers is not None:
            return self._headers.find_stops(is_thought=self._in_block)
        format, wrapping = self._format, self._wrapping
        calls: tuple[str, ...] = ()
        if self._calls:
            befores = dict.fromkeys((format.before, format.header, ""))
            calls = tuple(before + opener for opener in self._openings for before in befores)
        if self._is_inside and format.reasoning is not None:
            closer = format.reasoning.closer.text
            closers = (format.reasoning.pad_close + closer, closer)
            return (*closers, *calls) if self._recover else closers
        wrappers = tuple(content.opener for content in format.contents if content.opener)
        tail = (format.tail,) if format.tail else ()
        outside = (*calls, *wrappers, *format.inner_ends, *tail, *self._strays, *self._ends)
        if self._in_thoughts and self._thoughts:  # a call in there is one to the grammar, too
            closer = self._thoughts[1]
            return (f"\n{closer}", closer, *outside)
        if wrapping is None:
            return outside
        if not self._recover and (not wrapping.calls or wrapping.closer):
            calls = ()
        closers = (wrapping.closer,) if wrapping.closer else ()
        return (*closers, *calls, *format.inner_ends, *self._ends)

    @property
    def _is_inside(self) -> bool:
        """True inside the reasoning block, also behind a call that may be a thought."""
        return self._in_block or self._pending is not None

    @property
    def _strays(self) -> tuple[str, ...]:
        """The markers of a reasoning block that may stand anywhere; none where nothing is known of
        such."""
        block = self._format.reasoning
        if not self._recover or block is None or not self._format.strays:
            return ()
        return (block.opener.text, *self._format.strays)

    def _stopped(self, stop: str) -> Steps[None]:
        """Goes on behind one of the `_stops`."""
        if self._headers is not None:
            yield from self._message_stopped(stop, self._headers)
            return
        block = self._format.reasoning
        if self._is_inside and block is not None and stop.endswith(block.closer.text):
            yield from self._close_block(stop, block)
            return
        if self._in_thoughts and self._thoughts and stop.endswith(self._thoughts[1]):
            self._in_thoughts = False
            yield from self._buffer.skip("\n\n")
            if self._recover:  # to the grammar, nothing but a marker opens a call here
                yield from self._body()
            return
        openings = [opening for opening in self._openings if stop.endswith(opening)]
        if openings and self._calls:
            yield from self._opened(stop, max(openings, key=len))
        elif stop in self._strays:
            yield from self._strayed(stop)
        elif self._wrapping is not None:
            self._wrapping, self._blank = None, ""
        elif stop != self._format.tail and stop not in self._format.inner_ends:
            self._begin_content(next(c for c in self._format.contents if c.opener == stop))

    def _close_block(self, stop: str, block: Reasoning) -> Steps[None]:
        """Goes on behind the closer of the reasoning block."""
        if self._pending is not None:
            if (yield from self._buffer.peek(self._sees_more())):
                self._forget_calls(stop)
            else:
                self._release()
        self._in_block = False
        self._buffer.record(stop.removesuffix(block.next_opener))
        yield from self._buffer.skip(block.after)
        self._show(self._buffer.recorded())
        yield from self._body()

    def _sees_more(self) -> Steps[bool]:
        """Is there more than white space?"""
        yield from self._buffer.space()
        return True

    def _strayed(self, stop: str) -> Steps[None]:
        """Goes on behind a marker of the reasoning block that stands elsewhere than at the head."""
        block = self._format.reasoning
        if block is None or stop != block.opener.text:
            return
        self._in_block = True
        self._buffer.record(stop)
        yield from self._buffer.skip(block.pad_open)
        self._show(self._buffer.recorded())

    def _opened(self, stop: str, opening: str) -> Steps[None]:
        """Goes on behind what opens calls; or content, where that begins alike."""
        self._wrapping = None
        for wrapping in self._format.contents:  # `>>>all`, where `>>>` opens calls
            if not wrapping.opener.startswith(opening):
                continue
            rest = wrapping.opener.removeprefix(opening)
            if (yield from self._buffer.accept(rest, after_space=False)):
                self._begin_content(wrapping)
                return
        if self._recover and self._in_block and self._pending is None:
            yield from self._hold(stop, opening)
            return
        if self._has_content_inside(opening) and not (yield from self._read_inside()):
            return
        if (yield from self._attempt(stop, self._openings[opening])) and not self._recover:
            self._in_thoughts = False

    def _has_content_inside(self, opening: str) -> bool:
        own = self._format.opener is not None and opening == self._format.opener.text
        return own and self._format.has_content_inside

    def _read_inside(self) -> Steps[bool]:
        """Content inside of what opens the calls; False if nothing follows that does."""
        closer = self._format.opening[1].text
        stop = yield from self._buffer.until((closer,), self._emit)
        if stop is None:
            return False
        self._buffer.unread(stop)
        return True

    def _hold(self, stop: str, opening: str) -> Steps[None]:
        """Reads the first call inside the reasoning block, if it is one."""
        self._pending = _PendingCalls(self._count, self._blank)
        self._buffer.record(stop)
        if (yield from self._attempt(stop, self._openings[opening])):
            self._in_block = False  # a call ends the block, unless its closer comes
        else:
            self._release()

    def _release(self) -> None:
        """Tells of the calls that were held."""
        if self._pending is not None:
            self._events += self._pending.events
            self._pending = None
            self._buffer.recorded()

    def _forget_calls(self, stop: str) -> None:
        """The calls that were held, and what stands beside them, are reasoning."""
        assert self._pending is not None
        self._count, self._blank = self._pending.count, self._pending.blank
        self._pending, self._in_block = None, True
        self._emit(self._buffer.recorded().removesuffix(stop))

    # Messages with a header, in recovery.

    def _message_stopped(self, stop: str, messages: HeaderReader) -> Steps[None]:
        """Goes on behind what ends a message, or begins one."""
        headers = messages.headers
        if stop not in headers.starts:
            if self._in_block:
                self._show(stop)
            self._in_block, self._blank = False, ""
            return
        if (found := (yield from messages.read(stop))) is None:
            self._emit(stop)
            return
        text, header = found
        self._in_block = False
        tool = headers.find_tool(header.recipient, self._tools)
        if tool is not None and self._calls:
            yield from self._read_call(text, ((self._format.hole,),), name=tool)
            return
        self._blank = None
        self._in_block = header.channel in headers.thoughts
        if self._in_block:
            self._show(text)
        if header.is_spaced:
            yield from self._buffer.skip(" ")

    def _begin_content(self, wrapping: Content) -> None:
        self._wrapping, self._blank, self._in_thoughts = wrapping, None, False

    def _emit(self, text: str) -> None:
        """Passes on text that is no part of a call."""
        if not text:
            return
        if self._in_block and self._inline:
            self._emit_event(ContentDelta(text))
            return
        if self._in_block or self._in_thoughts:
            self._emit_event(ReasoningDelta(text))
            return
        if self._blank is not None:
            text = self._blank + text
            self._blank = text if text.isspace() else None
            if self._count and self._format.has_content_behind:
                text = text.removeprefix(self._format.after)
        if self._blank is None:
            self._emit_event(ContentDelta(text))

    # Calls.

    def _attempt(self, opener: str, ways: Sequence[Sequence[CallNode]]) -> Steps[bool]:
        """Reads a call written in one of these ways; if it is none, its opener is text and reading
        goes on behind it. The calls that are opened with it follow."""
        if not (yield from self._read_call(opener, ways)):
            return False
        format = self._format
        if not format.opening:
            if self._recover and opener:
                yield from self._bare_objects()  # several objects between one pair of tags
            between, closing = format.between.strip(), spell_fixed(format.closing).strip()
            if closing and (yield from self._accept_closing(closing)):
                return True
            if closing:
                self._cut_behind_call(closing)
            if between and not (yield from self._buffer.accept(between)):  # a header for each call
                self._cut_behind_call(between)
            return True
        is_bare = format.bare is not None and ways[0] != format.call
        is_opened = format.opener is not None and opener.endswith(format.opener.text)
        if is_bare or is_opened or (format.opener is not None and self._recover):
            yield from self._further_calls()
        return True

    def _further_calls(self) -> Steps[None]:
        """The calls behind the first of those that are opened together, and what closes them."""
        between = self._format.between.strip()
        closing = spell_fixed(self._format.closing).strip()
        nexts = [text for text in (between, self._format.start) if text]
        while True:
            if closing and (yield from self._accept_closing(closing)):
                return
            if nexts and not (yield from self._buffer.peek_text(*nexts)):
                self._cut_behind_call(closing, between, self._format.start)
                return
            if not nexts and self._cut_behind_call(closing):  # a name comes next, or this
                return
            if not (yield from self._read_call("", self._ways, between)):
                return

    def _accept_closing(self, closing: str) -> Steps[bool]:
        """Takes what closes the calls; models put white space into it."""
        if self._recover:
            return self._buffer.accept_loosely(closing)
        return self._buffer.accept(closing)

    def _read_call(
        self,
        opener: str,
        ways: Sequence[Sequence[CallNode]],
        between: str | None = None,
        name: str = "",
    ) -> Steps[bool]:
        """Reads one call; says whether it is one.

        Args:
            opener: what has been taken in front of it.
            ways: how it may be written behind that.
            between: what may stand between it and the call before; None where it is the first.
            name: its name, where the opener has told it.
        """
        is_cut, taken = False, ""
        self.is_in_call = True
        self.output_start = self._buffer.position
        for nodes in ways:
            self._buffer.mark()
            try:
                if between is not None:  # templates write any amount of white space there
                    yield from self._buffer.space()
                if between and (yield from self._buffer.sees(between)):
                    self._buffer.take(len(between))
                    yield from self._buffer.space()
                call = yield from self._reader.read(nodes, name)
                if not opener and between is None and call.name not in self._tools:
                    raise NotACallError  # an object that happens to stand at the start
            except (NotACallError, CutError) as e:
                is_cut = is_cut or isinstance(e, CutError)
                taken = self._buffer.forget()
                self._buffer.unread(taken)
                continue
            self._buffer.forget()
            self._close_call(call)
            return True
        if is_cut:
            self._cut(opener)
        else:
            self._refuse(opener, taken)
        self._is_call_open = self.is_in_call = False
        return False

    def _open_call(self, name: str) -> None:
        """The name of the call under way is known."""
        if self._streams:
            self._is_call_open = True
            self._emit_event(CallOpened(self._count, name))
        else:
            self.output_start = self._buffer.position

    def _add_arguments(self, text: str, boundaries: Sequence[Boundary]) -> None:
        """More is known of the arguments of the call under way."""
        if self._streams and text:
            self._emit_event(ArgumentsDelta(self._count, text, tuple(boundaries)))

    def _close_call(self, call: ToolCall) -> None:
        """The call under way is complete."""
        self._emit_event(CallRead(self._count, call))
        self.call_ends.append(self._buffer.position)
        self._count += 1
        self._blank = ""
        self._is_call_open = self.is_in_call = False

    def _refuse(self, opener: str, taken: str) -> None:
        """What was taken for a call is text, unless an event has told of the call."""
        if self._is_call_open:
            self._emit_event(CallCut(opener + self._buffer.take(len(taken))))
            self._count += 1
        else:
            self._emit(opener or self._buffer.take(1))

    def _cut(self, opener: str) -> None:
        """The text ended inside a call."""
        text = opener + self._buffer.drain()
        if self._recover:
            self._emit(text)
        else:
            self._emit_event(CallCut(text))

    def _cut_tag(self) -> bool:
        """Where the text ended inside a tag, that is no content: it holds a marker already, or
        stands behind calls that no content follows. Elsewhere it may be content that ends like
        that."""
        rest = self._buffer.rest
        if self._recover or not rest.strip():
            return False
        is_behind = self._count and not self._format.has_content_behind
        if not is_behind and not any(marker in rest for marker in self._format.reserved):
            return False
        self._cut("")
        return True

    def _cut_behind_call(self, *texts: str) -> bool:
        """Where the text ended inside what stands behind a call, nothing of that is content; says
        whether it did."""
        if self._recover or not self._buffer.closed:
            return False
        rest = self._buffer.rest.strip()
        is_cut = bool(rest) and any(text.startswith(rest) for text in texts)
        if is_cut:
            self._cut("")
        return is_cut


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
    """Reads a whole turn at once."""
    parser = Parser(format, tools, state, recover=recover, thoughts=thoughts, inline=inline)
    return collect([*parser.feed(text), *parser.close()])
