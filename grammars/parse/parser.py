"""Push parser: text -> events. Total, linear, and the same for every cut into chunks."""

from collections.abc import Sequence

from grammars.parse.buffer import Buffer, CutError, NotACallError, Steps
from grammars.parse.calls import CallReader
from grammars.parse.lookahead import Lookahead
from grammars.turn import (
    ArgumentsDelta,
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
)
from grammars.wire.format import CallNode, Content, Format, JsonCall, Reasoning


class Parser(Lookahead):
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
    ):
        self._format = format
        self._calls = calls
        self._answer = answer
        self._tools = {t.name: t for t in tools}
        self._state = state or State()
        self._recover = recover
        super().__init__(Buffer())
        self._events: list[Event] = []
        self._count = 0
        self._tells = stream and not recover and not (answer and format.bare)
        self._reader = CallReader(format, self._buffer, self._tools, recover, self._tell)
        self._reasoning = self._state.start is Start.OPEN
        self._thoughts = None if answer else thoughts
        self._tagged = False  # inside these tags
        self._blank: str | None = ""  # white space that is content only if more content follows
        self._opened = False  # a call was told of that is not complete
        self._way: Content | None = None  # how the content is written that is under way
        self._openings = (
            format.recovered if recover else {o: (n,) for o, n in format.openings.items()}
        )
        self._again = (format.call, *(format.variants if recover else ()))
        # Where the last call (behind its opener; behind its name, if nobody is told of it) or the
        # answer began, in characters of the turn.
        self.began = 0
        self._steps = self._turn()
        next(self._steps)

    @property
    def is_reasoning(self) -> bool:
        """Is the text read so far inside the reasoning block of the format?"""
        return self._reasoning

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

    def _turn(self) -> Steps[None]:
        yield
        if self._state.lead:
            self._buffer.unread(self._state.lead)
            yield from self._body()
        else:
            yield from self._head()
        while (stop := (yield from self._buffer.until(self._stops(), self._emit))) is not None:
            yield from self._stopped(stop)
        if not self._cut_tag():
            self._emit(self._buffer.drain())
        if self._blank and not self._count:
            self._events.append(ContentDelta(self._blank))

    def _head(self) -> Steps[None]:
        """What may stand in front of content: padding, and the opener of a reasoning block."""
        block = self._format.reasoning
        if self._state.start is not Start.PLAIN:
            yield from self._buffer.skip(self._state.pad)
            if self._state.start is Start.CLOSED and block is not None:
                yield from self._closed_again(block)
        elif block is not None:
            self._buffer.mark()
            try:
                yield from self._buffer.space()
                yield from self._buffer.literal(block.opener.text.lstrip())
            except (NotACallError, CutError) as e:
                self._buffer.unread(self._buffer.forget())
                if block.starts_closed:
                    yield from self._closed_again(block)
                if isinstance(e, CutError):
                    self._cut_tag()
            else:
                self._buffer.forget()
                self._reasoning = True
                yield from self._buffer.skip(block.pad_open)
        if not self._reasoning:
            yield from self._tags()
        if not self._reasoning and not self._tagged:
            yield from self._body()

    def _tags(self) -> Steps[None]:
        """Thoughts between tags that the format does not know."""
        opener = self._thoughts[0] if self._thoughts else ""
        if opener and (yield from self._looks_ahead(self._sees_text(opener))):
            yield from self._buffer.space()
            self._buffer.take(len(opener))
            self._tagged = True
            yield from self._buffer.skip("\n")

    def _closed_again(self, block: Reasoning) -> Steps[None]:
        """A closer where the prompt has closed the block: some models write it once more."""
        if (yield from self._looks_ahead(self._sees_text(block.closer.text))):
            yield from self._buffer.space()
            self._buffer.take(len(block.closer.text))
            yield from self._buffer.skip(block.after)

    def _body(self) -> Steps[None]:
        """What the place behind the reasoning alone may hold: a call without its opener, or an
        answer in which nothing is a call."""
        self.began = self._buffer.position
        if self._answer and (self._format.bare is None or not self._calls):
            self._calls = self._calls and (yield from self._opens_calls(self._format))
            if not self._calls:
                yield from self._read_answer()
            return
        if not self._calls:
            return
        if self._format.bare is not None:
            before = -1
            while self._count > before and (yield from self._sees_bare_call(self._format.bare)):
                before = self._count if self._recover else self._count + 1
                yield from self._attempt("", (self._format.call,))
        elif self._recover:
            yield from self._bare_object()

    def _read_answer(self) -> Steps[None]:
        """An answer up to the end of the turn: a closer may also stand in a string of it."""
        way, tail = self._format.contents[0], self._format.tail
        if way.opener and not (yield from self._looks_ahead(self._sees_text(way.opener))):
            return
        if way.opener:
            yield from self._buffer.space()
            self._buffer.take(len(way.opener))
            self._blank, self.began = None, self._buffer.position
        inner = self._format.inner_ends
        ends = tuple(end for end in (way.closer + tail, way.closer, tail, *inner) if end)
        while (stop := (yield from self._buffer.until(ends, self._emit))) is not None:
            try:
                yield from self._buffer.need()
            except CutError:
                return
            self._emit(stop)

    def _bare_object(self) -> Steps[None]:
        """A turn that begins with `{`: perhaps a JSON call without its opener."""
        nodes = self._format.call
        at = next((i for i, n in enumerate(nodes) if isinstance(n, JsonCall)), None)

        def steps() -> Steps[bool]:
            yield from self._buffer.space()
            return (yield from self._buffer.need()) == "{"

        before = -1
        while at is not None and self._count > before and (yield from self._looks_ahead(steps())):
            before = self._count
            yield from self._attempt("", (nodes[at:],))

    def _stops(self) -> tuple[str, ...]:
        block, format, way = self._format.reasoning, self._format, self._way
        openers = self._openings if self._calls else ()
        calls = tuple(before + opener for opener in openers for before in {format.before, ""})
        if self._reasoning and block is not None:
            ends = (block.pad_close + block.closer.text, block.closer.text)
            return ends + calls if self._recover else ends
        ways = tuple(c.opener for c in format.contents if c.opener)
        others = (*calls, *ways, *format.inner_ends, *([format.tail] if format.tail else ()))
        if self._tagged and self._thoughts:  # a call in there is one to the grammar, too
            return (f"\n{self._thoughts[1]}", self._thoughts[1], *others)
        if way is not None:
            within = calls if self._recover or (way.calls and not way.closer) else ()
            return (way.closer, *within) if way.closer else (*within, *format.inner_ends)
        return others

    def _stopped(self, stop: str) -> Steps[None]:
        block, way = self._format.reasoning, self._way
        if self._reasoning and block is not None and stop.endswith(block.closer.text):
            self._reasoning = False
            yield from self._buffer.skip(block.after)
            yield from self._body()
            return
        if self._tagged and self._thoughts and stop.endswith(self._thoughts[1]):
            self._tagged = False
            yield from self._buffer.skip("\n\n")
            if self._recover:  # to the grammar, nothing but a marker opens a call here
                yield from self._body()
            return
        opener = max((o for o in self._openings if stop.endswith(o)), key=len, default=None)
        if opener is not None and self._calls:
            self._way = None
            for longer in self._format.contents:  # `>>>all`, where `>>>` opens calls
                rest = longer.opener.removeprefix(opener)
                seen = rest != longer.opener and self._looks_ahead(self._sees_exactly(rest))
                if seen and (yield from seen):
                    self._buffer.take(len(rest))
                    self._way, self._blank, self._tagged = longer, None, False
                    return
            if (yield from self._attempt(stop, self._openings[opener])) and not self._recover:
                self._tagged = False
        elif way is not None:
            self._way, self._blank = None, ""
        elif stop != self._format.tail and stop not in self._format.inner_ends:
            self._way = next(c for c in self._format.contents if c.opener == stop)
            self._blank, self._tagged = None, False

    def _attempt(self, opener: str, ways: Sequence[Sequence[CallNode]]) -> Steps[bool]:
        """Reads a call written in one of these ways; if it is none, its opener is text and reading
        goes on behind it. The calls that are opened with it follow."""
        if not (yield from self._try(opener, ways)):
            return False
        if self._recover and opener and not self._format.opening:
            yield from self._bare_object()  # several objects between one pair of tags
        first, between = self._format.opener, self._format.between.strip()
        if not self._format.opening and between:  # a header of its own for each call
            if (yield from self._looks_ahead(self._sees_text(between))):
                yield from self._buffer.space()
                self._buffer.take(len(between))
            else:
                self._cut_between(between)
            return True
        together = first is not None and (self._recover or opener.endswith(first.text))
        if not (self._format.opening and together):
            return True
        end = "".join(node.text for node in self._format.closing).strip()
        while True:
            if end and (yield from self._looks_ahead(self._sees_text(end))):
                yield from self._buffer.space()
                self._buffer.take(len(end))
                return True
            more = self._sees_text(*filter(None, (between, self._format.start)))
            if not (yield from self._looks_ahead(more)):
                self._cut_between(end, between, self._format.start)
                return True
            if not (yield from self._try("", self._again, between)):
                return True

    def _try(
        self, opener: str, ways: Sequence[Sequence[CallNode]], between: str | None = None
    ) -> Steps[bool]:
        """Reads one call, behind what stands between two; says whether it is one."""
        is_cut, found, taken = False, False, ""
        self.began = self._buffer.position
        for nodes in ways:
            self._buffer.mark()
            try:
                call = yield from self._read(nodes, between)
                if not opener and between is None and call.name not in self._tools:
                    raise NotACallError  # an object that happens to stand at the start
            except (NotACallError, CutError) as e:
                is_cut |= isinstance(e, CutError)
                taken = self._buffer.forget()
                self._buffer.unread(taken)
            else:
                self._buffer.forget()
                self._events.append(CallRead(self._count, call))
                self._count += 1
                self._blank = ""
                found = True
                break
        if is_cut and not found:
            self._cut(opener)
        elif not found:
            self._refuse(opener, taken)
        self._opened = False
        return found

    def _read(self, nodes: Sequence[CallNode], between: str | None) -> Steps[ToolCall]:
        if between and (yield from self._buffer.sees(between)):
            yield from self._buffer.space()
            self._buffer.take(len(between))
        return (yield from self._reader.read(nodes))

    def _refuse(self, opener: str, taken: str) -> None:
        """What was taken for a call is text, unless somebody has been told of the call."""
        if self._opened:
            self._events.append(CallCut(opener + self._buffer.take(len(taken))))
            self._count += 1
            return
        self._emit(opener or self._buffer.take(1))

    def _cut(self, opener: str) -> None:
        """The text ended inside a call."""
        text = opener + self._buffer.drain()
        if self._recover:
            self._emit(text)
        else:
            self._events.append(CallCut(text))

    def _cut_tag(self) -> bool:
        """Where the text ended inside a tag, that is no content: it holds a marker already, or
        stands behind calls. Elsewhere it may be content that ends like that."""
        rest = self._buffer.rest
        begun = self._count or any(marker in rest for marker in self._format.reserved)
        if self._recover or not rest.strip() or not begun:
            return False
        self._cut("")
        return True

    def _cut_between(self, *texts: str) -> None:
        """Where the text ended inside what stands behind a call, nothing of that is content."""
        rest = self._buffer.rest.strip() if self._buffer.closed and not self._recover else ""
        if rest and any(text.startswith(rest) for text in texts):
            self._cut("")

    def _tell(self, name: str | None, arguments: str) -> None:
        """Passes on what is known of a call under way: its name, or more of its arguments."""
        if not self._tells:
            self.began = self.began if name is None else self._buffer.position
        elif name is not None:
            self._opened = True
            self._events.append(CallOpened(self._count, name))
        elif arguments:
            self._events.append(ArgumentsDelta(self._count, arguments))

    def _emit(self, text: str) -> None:
        if not text:
            return
        if self._reasoning or self._tagged:
            self._events.append(ReasoningDelta(text))
            return
        if self._blank is not None:
            text = self._blank + text
            self._blank = text if text.isspace() else None
        if self._blank is None:
            self._events.append(ContentDelta(text))


def parse(
    text: str,
    format: Format,
    tools: Sequence[Tool] = (),
    state: State | None = None,
    *,
    recover: bool = False,
    thoughts: tuple[str, str] | None = None,
) -> Turn:
    """Reads a whole turn at once."""
    parser = Parser(format, tools, state, recover=recover, thoughts=thoughts)
    return collect([*parser.feed(text), *parser.close()])
