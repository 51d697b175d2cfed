"""Push parser: text -> events. Total, linear, and the same for every cut into chunks."""

import json
from collections.abc import Sequence

from grammars.parse_call import CallReader
from grammars.scan import Buffer, CutError, NotACallError, Steps
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
        answer: the turn is either calls or an answer of another form: what does not begin as a
            call holds none.
        stream: tell of a call and its arguments while they are written, not only when it is
            complete. For text that a mask has held to the format: a call that turns out to be
            none is a `CallCut` then.
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
    ):
        self._format = format
        self._calls = calls
        self._answer = answer
        self._tools = {t.name: t for t in tools}
        self._state = state or State()
        self._recover = recover
        self._buffer = Buffer()
        self._events: list[Event] = []
        self._count = 0
        certain = not recover and not (answer and format.bare)
        tell = self._tell if stream and certain else None
        self._reader = CallReader(self._buffer, self._tools, recover, tell)
        self._reasoning = self._state.start is Start.OPEN
        self._blank: str | None = ""  # white space that is content only if more content follows
        self._opened = False  # a call was told of that is not complete
        self._steps = self._turn()
        next(self._steps)

    @property
    def is_reasoning(self) -> bool:
        """Is the text read so far inside the reasoning block?"""
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
        if not self._reasoning:
            yield from self._body()

    def _body(self) -> Steps[None]:
        """What the place behind the reasoning alone may hold: a call without its opener, or an
        answer in which nothing is a call."""
        if not self._calls:
            return
        if self._format.bare is not None:
            before = -1
            while self._count > before and (yield from self._sees_bare_call(self._format.bare)):
                before = self._count if self._recover else self._count + 1
                yield from self._attempt("", self._format.call)
        elif self._recover:
            yield from self._bare_object()
        elif self._answer:
            self._calls = yield from self._looks_ahead(self._sees_opening())

    def _looks_ahead(self, steps: Steps[bool]) -> Steps[bool]:
        """What these steps find; takes nothing."""
        self._buffer.mark()
        try:
            found = yield from steps
        except (CutError, NotACallError):
            found = False
        self._buffer.unread(self._buffer.forget())
        return found

    def _sees_opening(self) -> Steps[bool]:
        yield from self._buffer.space()
        yield from self._buffer.literal(*self._format.openings)
        return True

    def _sees_bare_call(self, bare: JsonCall) -> Steps[bool]:
        """Does the text begin as a call does that has no marker?"""

        def steps() -> Steps[bool]:
            for part in ("{", json.dumps(bare.name_key, ensure_ascii=bare.style.ascii)):
                if (yield from self._buffer.space()).strip(" \t\r\n"):
                    return False
                yield from self._buffer.literal(part)
            return True

        return self._looks_ahead(steps())

    def _bare_object(self) -> Steps[None]:
        """A turn that begins with `{`: perhaps a JSON call without its opener."""
        nodes = self._format.call
        at = next((i for i, n in enumerate(nodes) if isinstance(n, JsonCall)), None)

        def steps() -> Steps[bool]:
            yield from self._buffer.space()
            return (yield from self._buffer.need()) == "{"

        if at is not None and (yield from self._looks_ahead(steps())):
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
            yield from self._body()
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
            self._refuse(opener, self._buffer.forget())
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
        self._opened = False

    def _refuse(self, opener: str, taken: str) -> None:
        """What was taken for a call is text, unless somebody has been told of the call."""
        if self._opened:
            self._events.append(CallCut(opener + taken))
            self._count += 1
            return
        self._emit(opener or taken[:1])
        self._buffer.unread(taken if opener else taken[1:])

    def _tell(self, name: str | None, arguments: str) -> None:
        """Passes on what is known of a call under way: its name, or more of its arguments."""
        if name is not None:
            self._opened = True
            self._events.append(CallOpened(self._count, name))
        elif arguments:
            self._events.append(ArgumentsDelta(self._count, arguments))

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
            case CallOpened() | ArgumentsDelta():
                pass
    return Turn("".join(content), "".join(reasoning), tuple(calls), unfinished)
