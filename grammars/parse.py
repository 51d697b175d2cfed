"""Push parser: text -> events. Total, linear, and the same for every cut into chunks."""

from collections.abc import Sequence

from grammars.parse_call import CallReader
from grammars.scan import Buffer, CutError, NotACallError, Steps
from grammars.turn import (
    CallCut,
    CallRead,
    ContentDelta,
    Event,
    ReasoningDelta,
    Start,
    State,
    Tool,
    ToolCall,
    Turn,
)
from grammars.wire import Format, JsonCall, Node


class Parser:
    """Reads one assistant turn.

    Args:
        format: the wire format.
        tools: the tools on offer, for types and validity.
        state: where the rendered prompt ends.
        recover: read the variants that models really write as calls (a missing opener or closer,
            a call inside the reasoning). Off for text that a mask has held to the format.
        calls: look for calls at all.
    """

    def __init__(
        self,
        format: Format,
        tools: Sequence[Tool] = (),
        state: State | None = None,
        *,
        recover: bool = False,
        calls: bool = True,
    ):
        self._format = format
        self._calls = calls
        self._tools = {t.name: t for t in tools}
        self._state = state or State()
        self._recover = recover
        self._buffer = Buffer()
        self._reader = CallReader(self._buffer, self._tools, recover)
        self._events: list[Event] = []
        self._reasoning = self._state.start is Start.OPEN
        self._blank: str | None = ""  # white space that is content only if more content follows
        self._count = 0
        self._steps = self._turn()
        next(self._steps)

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
        yield from self._head()
        while (stop := (yield from self._buffer.until(self._stops(), self._emit))) is not None:
            yield from self._stopped(stop)
        if self._blank and not self._count:
            self._events.append(ContentDelta(self._blank))

    def _head(self) -> Steps[None]:
        """What may stand in front of content: padding, and the opener of a reasoning block."""
        block = self._format.reasoning
        if self._state.start is not Start.PLAIN:
            yield from self._buffer.skip(self._state.pad)
        elif block is not None:
            self._buffer.mark()
            try:
                yield from self._buffer.space()
                yield from self._buffer.literal(block.opener.text)
            except (NotACallError, CutError):
                self._buffer.unread(self._buffer.forget())
            else:
                self._buffer.forget()
                self._reasoning = True
                yield from self._buffer.skip(block.pad_open)
        if self._recover and self._calls and not self._reasoning:
            yield from self._bare_object()

    def _bare_object(self) -> Steps[None]:
        """A turn that begins with `{`: perhaps a JSON call without its opener."""
        nodes = self._format.call
        at = next((i for i, n in enumerate(nodes) if isinstance(n, JsonCall)), None)
        self._buffer.mark()
        try:
            yield from self._buffer.space()
            is_object = (yield from self._buffer.need()) == "{"
        except CutError:
            is_object = False
        self._buffer.unread(self._buffer.forget())
        if at is not None and is_object:
            yield from self._attempt("", nodes[at:])

    def _stops(self) -> tuple[str, ...]:
        block = self._format.reasoning
        openers = self._format.openings if self._calls else ()
        calls = tuple(before + opener for opener in openers for before in {self._format.before, ""})
        if self._reasoning and block is not None:
            ends = (block.pad_close + block.closer.text, block.closer.text)
            return ends + calls if self._recover else ends
        return calls

    def _stopped(self, stop: str) -> Steps[None]:
        block = self._format.reasoning
        if self._reasoning and block is not None and stop.endswith(block.closer.text):
            self._reasoning = False
            yield from self._buffer.skip(block.after)
        else:
            openings = self._format.openings
            opener = next(o for o in openings if stop.endswith(o))
            yield from self._attempt(stop, openings[opener])

    def _attempt(self, opener: str, nodes: Sequence[Node]) -> Steps[None]:
        """Reads a call; if it is none, its opener is text and reading goes on behind it."""
        self._buffer.mark()
        try:
            call = yield from self._reader.read(nodes)
            if not opener and call.name not in self._tools:
                raise NotACallError  # an object that happens to stand at the start
        except NotACallError:
            taken = self._buffer.forget()
            self._emit(opener or taken[:1])
            self._buffer.unread(taken if opener else taken[1:])
        except CutError:
            self._buffer.drain()  # what was looked at, but not taken
            text = opener + self._buffer.forget()
            if self._recover:
                self._emit(text)
            else:
                self._events.append(CallCut(text))
        else:
            self._buffer.forget()
            self._events.append(CallRead(self._count, call))
            self._count += 1
            self._blank = ""

    def _emit(self, text: str) -> None:
        if not text:
            return
        if self._reasoning:
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
) -> Turn:
    """Reads a whole turn at once."""
    parser = Parser(format, tools, state, recover=recover)
    return collect([*parser.feed(text), *parser.close()])


def collect(events: Sequence[Event]) -> Turn:
    """The turn that the events add up to."""
    content, reasoning, unfinished = list[str](), list[str](), ""
    calls: list[ToolCall] = []
    for event in events:
        match event:
            case ContentDelta(text):
                content.append(text)
            case ReasoningDelta(text):
                reasoning.append(text)
            case CallRead(_, call):
                calls.append(call)
            case CallCut(text):
                unfinished = text
    return Turn("".join(content), "".join(reasoning), tuple(calls), unfinished)
