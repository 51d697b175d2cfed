"""Push parser: text -> events. Total, linear, and the same for every cut of the text into chunks."""

from collections.abc import Sequence

from grammars.coerce import coerce, read_json
from grammars.errors import CoerceError
from grammars.schema import Json, Schema, Unfit, escape
from grammars.scan import Buffer, CutError, Steps
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
from grammars.wire import Format, JsonCall, Literal, Marker, Name, Node, TaggedArguments

LONGEST_NAME = 256
_ARGUMENT_KEYS = ("arguments", "parameters", "args")


class _NotACall(Exception):  # noqa: N818  # control flow, never seen outside
    """What looked like a call is none."""


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
            yield from self._skip(self._state.pad)
        elif block is not None:
            self._buffer.mark()
            try:
                yield from self._buffer.space()
                yield from self._literal(block.opener.text)
            except (_NotACall, CutError):
                self._buffer.unread(self._buffer.forget())
            else:
                self._buffer.forget()
                self._reasoning = True
                yield from self._skip(block.pad_open)
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
        block, opener = self._format.reasoning, self._format.opener.text
        calls = (self._format.before + opener, opener, *self._bare_openers()) if self._calls else ()
        if self._reasoning and block is not None:
            ends = (block.pad_close + block.closer.text, block.closer.text)
            return ends + calls if self._recover else ends
        return calls

    def _bare_openers(self) -> tuple[str, ...]:
        """A tag behind the opener that tells a call alone: models leave out the opener."""
        second = self._format.call[1]
        if not self._recover or not isinstance(second, Literal) or len(second.text.strip()) < 3:
            return ()
        return (second.text.strip(),)

    def _stopped(self, stop: str) -> Steps[None]:
        block = self._format.reasoning
        if self._reasoning and block is not None and stop.endswith(block.closer.text):
            self._reasoning = False
            yield from self._skip(block.after)
        elif stop in self._bare_openers():
            yield from self._attempt(stop, self._format.call[2:])
        else:
            yield from self._attempt(stop, self._format.call[1:])

    def _attempt(self, opener: str, nodes: Sequence[Node]) -> Steps[None]:
        """Reads a call; if it is none, its opener is text and reading goes on behind it."""
        self._buffer.mark()
        try:
            call = yield from self._call(nodes)
            if not opener and call.name not in self._tools:
                raise _NotACall  # an object that happens to stand at the start
        except _NotACall:
            taken = self._buffer.forget()
            self._emit(opener or taken[:1])
            self._buffer.unread(taken if opener else taken[1:])
        except CutError:
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

    def _call(self, nodes: Sequence[Node]) -> Steps[ToolCall]:
        name, arguments, errors = "", dict[str, Json](), list[Unfit]()
        for i, node in enumerate(nodes):
            match node:
                case Literal(text):
                    yield from self._loose(text)
                case Name():
                    name = yield from self._name(nodes[i + 1])
                case JsonCall():
                    yield from self._space()
                    name, arguments = yield from self._json_call(node)
                case TaggedArguments():
                    tool = self._tools.get(name)
                    arguments, errors = yield from self._tagged(node, tool)
                case Marker(text):
                    yield from self._closer(text)
        return self._judge(name, arguments, errors)

    def _judge(self, name: str, arguments: dict[str, Json], errors: list[Unfit]) -> ToolCall:
        tool = self._tools.get(name)
        if tool is None:
            return ToolCall(name, arguments, (Unfit("/name", f"no tool is called {name!r}"),))
        found = errors or list(tool.schema.find_errors(arguments))
        return ToolCall(name, arguments, tuple(found))

    def _name(self, after: Node) -> Steps[str]:
        stop = after.text.strip() if isinstance(after, Literal) else ""
        name = ""
        while not (yield from self._buffer.need()).startswith(stop[0]):
            name += self._buffer.take(1)
            if len(name) > LONGEST_NAME or name[-1] in "\n<":
                raise _NotACall
        return name.strip()

    def _json_call(self, node: JsonCall) -> Steps[tuple[str, dict[str, Json]]]:
        if (yield from self._buffer.need()) != "{":
            raise _NotACall
        try:
            value = read_json((yield from self._buffer.json()))
        except ValueError:
            raise _NotACall from None
        name = value.get(node.name_key)
        keys = (node.arguments_key, *(_ARGUMENT_KEYS if self._recover else ()))
        arguments = next((value[k] for k in keys if k in value), {} if self._recover else None)
        if self._recover and isinstance(arguments, str):
            try:
                arguments = read_json(arguments)
            except ValueError:
                raise _NotACall from None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise _NotACall
        return name, arguments

    def _tagged(
        self, tags: TaggedArguments, tool: Tool | None
    ) -> Steps[tuple[dict[str, Json], list[Unfit]]]:
        arguments, errors = dict[str, Json](), list[Unfit]()
        yield from self._space()
        stop = yield from self._either(tags.open, tags.end)
        while stop == tags.open:
            key = yield from self._name(Literal(tags.after_key))
            yield from self._literal(tags.after_key.rstrip("\n"))
            yield from self._skip(tags.after_key[len(tags.after_key.rstrip("\n")) :])
            parts: list[str] = []
            found = yield from self._buffer.until(self._terminators(tags), parts.append)
            if found is None:
                raise CutError
            stop = tags.open if found.endswith(tags.open) else tags.end
            raw = "".join(parts)
            if not arguments.get(key):
                arguments[key] = self._typed(raw, key, tool, errors)
        return arguments, errors

    def _terminators(self, tags: TaggedArguments) -> tuple[str, ...]:
        strict = (tags.close + tags.open, tags.close + tags.end)
        if not self._recover:
            return strict
        tag = tags.close.strip()
        loose = [
            before + tag + between + tail
            for before in ("\n", "")
            for between in ("\n", "", "\n\n")
            for tail in (tags.open, tags.end)
        ]
        return tuple(dict.fromkeys([*strict, *loose]))

    def _typed(self, raw: str, key: str, tool: Tool | None, errors: list[Unfit]) -> Json:
        schema: Schema | None = tool.schema.property(key) if tool else None
        if schema is None:
            if tool is not None:
                errors.append(Unfit(f"/{escape(key)}", f"{key!r} is not declared"))
            return raw
        try:
            return coerce(raw, schema)
        except CoerceError as e:
            errors.append(Unfit(f"/{escape(key)}{e.where or ''}", e.message))
            return raw

    def _either(self, *options: str) -> Steps[str]:
        for option in options:
            try:
                yield from self._literal(option)
            except _NotACall:
                continue
            return option
        raise _NotACall

    def _literal(self, text: str) -> Steps[None]:
        """Takes exactly this text."""
        for i, character in enumerate(text):
            if (yield from self._buffer.need(i + 1))[i] != character:
                raise _NotACall
        self._buffer.take(len(text))

    def _loose(self, text: str) -> Steps[None]:
        """Takes this text; white space around it may be missing or more."""
        if text.isspace():
            return
        yield from self._space()
        yield from self._literal(text.strip())

    def _closer(self, text: str) -> Steps[None]:
        """Takes the marker that closes a call; models leave it out."""
        try:
            found = yield from self._buffer.sees(text)
        except CutError:
            if not self._recover:
                raise
            return
        if found:
            yield from self._space()
            self._buffer.take(len(text))
        elif not self._recover:
            raise _NotACall

    def _space(self) -> Steps[None]:
        yield from self._buffer.space()

    def _skip(self, pad: str) -> Steps[None]:
        """Takes as much of `pad` as is there."""
        for character in pad:
            try:
                if (yield from self._buffer.need()) != character:
                    return
            except CutError:
                return
            self._buffer.take(1)


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
