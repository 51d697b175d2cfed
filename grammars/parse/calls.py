"""Reads one call from the push buffer: interprets the nodes of a format one after the other."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from grammars.schema.nodes import Violation
from grammars.schema.numbers import normalise_numbers
from grammars.spelling.buffer import Buffer, CutError, NotACallError, Steps
from grammars.spelling.value_reader import DeepJsonError
from grammars.turn import ToolCall
from grammars.turn_grammar.arguments.kind import CallParts, CallSource
from grammars.turn_grammar.arguments.kinds import find_kind, make_kind
from grammars.wire.format import (
    MAX_NAME_LENGTH,
    MIN_TAG_LENGTH,
    CallId,
    CallIndex,
    CallNode,
    Fixed,
    Format,
    Literal,
    Marker,
    Name,
    TaggedArguments,
    first_visible,
    has_tag,
)
from grammars.wire.nodes import ArgumentsHole
from grammars.wire.variants import AnyWord, Handle

# Holes that end at white space, so white space before them is skipped.
_WORDS = (Name, CallId, CallIndex)


class CallReader:
    """Reads calls. White space between the parts of a call may be missing or longer."""

    def __init__(self, format: Format, source: CallSource):
        self._format, self._source = format, source
        self._buffer = source.buffer
        self._tools = source.tools
        self._recover = source.recover
        self._sink = source.sink

    def read(self, nodes: Sequence[CallNode], name: str = "") -> Steps[ToolCall]:
        """Reads these nodes, which are the rest of a call; `name`: of the tool, if the text before
        has it. Raises a `NotACallError`, or a `CutError` if the text ends inside the call."""
        parts = CallParts(name)
        for number, node in enumerate(nodes, 1):
            try:
                yield from self._read_node(node, nodes[number:], parts)
            except DeepJsonError as e:
                parts.errors = (Violation("", str(e)),)
        return self.finish(parts)

    def _read_node(
        self, node: CallNode, after: Sequence[CallNode], parts: CallParts
    ) -> Steps[None]:
        """Reads one node. The nodes after it show where a name ends."""
        match node:
            case Literal(text):
                if not text.isspace():
                    yield from self._buffer.space()
                    yield from self._buffer.literal(text.strip())
                if text[-1:].isspace() and after and isinstance(after[0], _WORDS):
                    yield from self._buffer.space()
            case Marker(text):
                yield from self._take_closer(text)
            case Name():
                name = yield from self._read_tool_name(after)
                if not parts.name:
                    self._sink.open(name)
                    if parts.is_held:
                        self._sink.add_all(parts.arguments)
                elif name != parts.name:
                    raise NotACallError  # the format repeats the name, but it differs
                parts.name = name
            case CallId(pattern) if not after:
                parts.id = yield from self._read_last_word(pattern)
            case CallId():
                parts.id = yield from self._buffer.name(_find_stops(after, self._format))
            case CallIndex():
                parts.counter = node
                parts.index = yield from self._buffer.name(_find_stops(after, self._format))
            case AnyWord():
                yield from self._buffer.name(_find_stops(after, self._format))
            case Handle():
                parts.name, parts.id = yield from self._read_handle(node)
            case ArgumentsHole():
                yield from make_kind(node, self._format).read(self._source, parts)

    def finish(self, parts: CallParts) -> ToolCall:
        """Returns the call, with its errors, and its arguments converted to what the schema
        means."""
        id, tool = parts.find_id(), self._tools.get(parts.name)
        if parts.errors and not parts.name:
            return ToolCall(parts.name, parts.arguments, errors=parts.errors, id=id)
        if tool is None:
            unknown = Violation("/name", f"no tool is called {parts.name!r}")
            return ToolCall(parts.name, parts.arguments, errors=(unknown,), id=id)
        arguments = normalise_numbers(parts.arguments, tool.schema)
        found = parts.errors or tool.schema.find_errors(arguments)
        errors = tuple(Violation(f"/arguments{e.pointer}", e.message) for e in found)
        return ToolCall(parts.name, arguments, errors=errors, id=id)

    def _read_tool_name(self, after: Sequence[CallNode]) -> Steps[str]:
        """Reads a name up to the text after it. If that text begins with a character that names may
        contain (`.call(`), the name ends only before all of the text."""
        first = after[0] if after else None
        if not isinstance(first, Literal) or first.text[:1] not in tuple("._-"):
            stops = _find_stops(after, self._format)
            if self._recover and isinstance(first, TaggedArguments):
                stops += "\n"  # which models add
            return (yield from self._buffer.name(stops, "\n<{"))
        return (yield from self._buffer.name_before(first.text, "\n<"))

    def _read_last_word(self, pattern: str) -> Steps[str]:
        self._buffer.mark()
        with suppress(CutError, NotACallError):
            yield from self._buffer.take_while(
                lambda next: next.isalnum() or next in "_-", MAX_NAME_LENGTH
            )
        word = self._buffer.forget()
        if re.fullmatch(pattern, word):
            return word
        raise CutError if self._buffer.closed and not self._buffer.rest else NotACallError

    def _read_handle(self, node: Handle) -> Steps[tuple[str, str | None]]:
        text = yield from self._buffer.take_while(
            lambda next: next != "<" and not next.isspace(), MAX_NAME_LENGTH
        )
        if (found := node.read(text, self._tools)) is None:
            raise NotACallError
        return found

    def _take_closer(self, text: str) -> Steps[None]:
        """Takes the marker that closes a call, which models may leave out."""
        try:
            found = yield from self._buffer.sees(text)
        except CutError:
            if not self._recover:
                raise
            return
        if found:
            yield from self._buffer.space()
            self._buffer.take(len(text))
        elif not self._recover:
            raise NotACallError


def find_openings(format: Format, *, recover: bool) -> Mapping[str, Sequence[Sequence[CallNode]]]:
    """Returns the openers of calls, each with the ways to write a call after it. With `recover`,
    common variants are included; then a format with message headers has no openers, since
    `HeaderReader` reads the headers."""
    if not recover:
        openings: dict[str, Sequence[Sequence[CallNode]]] = {}
        for opening, nodes in format.openings.items():
            is_shared = format.opens_several(opening) and nodes != format.several_nodes
            openings[opening] = (nodes, format.several_nodes) if is_shared else (nodes,)
        return openings
    if format.headers is not None:
        return {}
    return {**format.recovered, **_list_other_openings(format)}


def _list_other_openings(format: Format) -> Mapping[str, Sequence[Sequence[CallNode]]]:
    """Returns the tags that open calls of a format with an `opening`, in recovery: the tag of one
    call alone, and any other tag with the same head in front of it (`<｜DSML｜function_calls>`)."""
    first, *rest = format.call
    openings: dict[str, Sequence[Sequence[CallNode]]] = {}
    if not format.opening or not isinstance(first, Literal) or not first.text.startswith("<"):
        return openings
    if len(first.text.strip()) >= MIN_TAG_LENGTH:
        openings[first.text.strip()] = (rest,)
    for head in format.tag_heads:
        openings[f"<{head}"] = ((AnyWord(), Literal(">"), *format.call),)
    return openings


@dataclass(frozen=True)
class Closers:
    """The tags that close a call and its values, all calls, and what those of another version begin
    with."""

    of_call: tuple[str, ...]
    of_group: tuple[str, ...]
    heads: tuple[str, ...]

    def skip(self, buffer: Buffer) -> Steps[None]:
        """Takes those that come again after the calls, with the white space before them."""
        yield from buffer.skip_texts(*self.of_call, *self.of_group)
        for head in self.heads:
            yield from buffer.skip_tag(head)


def find_closers(format: Format) -> Closers:
    """Returns the tags that close the calls of a format, the longest first. Models write them more
    than once. A tag that may also open a call is none of them."""
    group = [*format.closing, *(format.several.closing if format.several else ())]
    call = list(format.call[format.call.index(format.hole) + 1 :])
    texts = [node.text for node in call if isinstance(node, Fixed)]
    texts += find_kind(format).closers
    of_group = _list_tags(format, [node.text for node in group])
    of_call = tuple(text for text in _list_tags(format, texts) if text not in of_group)
    return Closers(of_call, of_group, heads=tuple(f"</{head}" for head in format.tag_heads))


def _list_tags(format: Format, texts: Iterable[str]) -> tuple[str, ...]:
    openers = (*format.openings, *format.content_openers, format.start)
    tags: list[str] = []
    for text in map(str.strip, texts):
        if has_tag(text) and not any(opener.startswith(text) for opener in openers):
            tags.append(text)
    return tuple(sorted(dict.fromkeys(tags), key=len, reverse=True))


def _find_stops(nodes: Sequence[CallNode], format: Format) -> str:
    before = ""
    for i, node in enumerate(nodes):
        match node:
            case Literal(text) | Marker(text):
                before += text
                if before.strip():
                    return first_visible(before)
            case ArgumentsHole():
                stops = ""
                for beginning in make_kind(node, format).beginnings:
                    after: Sequence[CallNode] = () if beginning else nodes[i + 1 :]
                    stops += _find_stops((Literal(before + beginning), *after), format)
                return stops
            case _:
                return before
    return first_visible(before)
