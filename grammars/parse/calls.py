"""Reads one call from the push buffer: interprets the nodes of a format one after the other."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import cast

from grammars.parse.arguments import CallSink, JsonWriter, NestedWriter, TaggedWriter
from grammars.parse.buffer import (
    Buffer,
    CutError,
    FaultError,
    NotACallError,
    Steps,
    make_scanner,
)
from grammars.parse.keyword_arguments import KeywordArgumentsReader
from grammars.parse.nested import NestedArgumentsReader
from grammars.schema.json_values import Json
from grammars.schema.nodes import Object, Violation
from grammars.schema.numbers import normalise_numbers
from grammars.spelling.coerce import Raw, TypedText, coerce_members, read_undeclared
from grammars.spelling.keyword_arguments import find_ends
from grammars.spelling.nested import TreeReader
from grammars.spelling.reading import DeepJsonError, read_json, read_value
from grammars.spelling.tagged import list_text_kinds
from grammars.turn import Tool, ToolCall
from grammars.wire.format import (
    MAX_NAME_LENGTH,
    MIN_TAG_LENGTH,
    CallId,
    CallIndex,
    CallNode,
    Fixed,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    NestedArguments,
    TaggedArguments,
    has_tag,
)
from grammars.wire.variants import AnyWord, Handle

_BETWEEN_TAGS = re.compile(r"(?<=>)\s*(?=<)")

# Holes that end at white space, so white space before them is skipped.
_WORDS = (Name, CallId, CallIndex)

_SILENT = CallSink(open=lambda name: None, add=lambda text, boundaries: None)
"""Receives the arguments of a call whose name is not known yet."""


@dataclass
class _CallParts:
    """The parts of a call that have been read.

    Args:
        counter, index: if the format counts calls: the hole of the number, and the text in it.
        errors: why the arguments do not fit the schema; their pointers are relative to the
            arguments.
        is_held: the arguments come before the name, so the sink has not received them yet.
    """

    name: str = ""
    id: str | None = None
    counter: CallIndex | None = None
    index: str = ""
    arguments: dict[str, Json] = field(default_factory=dict[str, Json])
    errors: tuple[Violation, ...] = ()
    is_held: bool = False

    def find_id(self) -> str | None:
        """Returns the id of the call; made from the number if the format counts calls.

        Raises:
            NotACallError: the index is not a number.
        """
        if self.counter is None:
            return self.id
        if not self.index.isdigit():
            raise NotACallError
        if not self.counter.id:
            return None
        return self.counter.id.format(name=self.name, index=self.index)


class CallReader:
    """Reads calls. White space between the parts of a call may be missing or longer.

    Args:
        format: how the model writes calls.
        buffer: the text.
        tools: the tools of the request, by name.
        recover: also read common variants: a missing closer, other keys.
        sink: receives the name and the arguments of a call while it is read.
    """

    def __init__(
        self,
        format: Format,
        buffer: Buffer,
        tools: Mapping[str, Tool],
        *,
        recover: bool,
        sink: CallSink,
    ):
        self._format = format
        self._buffer = buffer
        self._tools = tools
        self._recover = recover
        self._sink = sink

    def read(self, nodes: Sequence[CallNode], name: str = "") -> Steps[ToolCall]:
        """Reads these nodes, which are the rest of a call.

        Args:
            name: the name of the tool, if the text before has it.

        Raises:
            NotACallError: the text is something else.
            CutError: the text ends inside the call.
        """
        parts = _CallParts(name)
        for number, node in enumerate(nodes, 1):
            try:
                yield from self._read_node(node, nodes[number:], parts)
            except DeepJsonError as e:
                parts.errors = (Violation("", str(e)),)
        return self._finish(parts)

    def _read_node(
        self, node: CallNode, after: Sequence[CallNode], parts: _CallParts
    ) -> Steps[None]:
        """Reads one node. The nodes after it (`after`) show where a name ends."""
        match node:
            case Literal(text):
                yield from self._take_loosely(text)
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
                parts.id = yield from self._read_name(_find_stops(after))
            case CallIndex():
                parts.counter = node
                parts.index = yield from self._read_name(_find_stops(after))
            case AnyWord():
                yield from self._read_name(_find_stops(after))
            case Handle():
                parts.name, parts.id = yield from self._read_handle(node)
            case JsonArguments(encoded=True) if (yield from self._buffer.sees('"')):
                yield from self._read_encoded(node, parts)
            case JsonCall() | JsonArguments():
                yield from self._read_json(node, parts)
            case TaggedArguments():
                yield from self._read_tagged(node, parts)
            case KeywordArguments():
                yield from self._read_keywords(node, parts)
            case NestedArguments():
                yield from self._read_nested(node, parts)

    def finish(self, name: str, arguments: dict[str, Json], id: str | None) -> ToolCall:
        """Returns the call with these parts, checked and converted."""
        return self._finish(_CallParts(name, id, arguments=arguments))

    def _finish(self, parts: _CallParts) -> ToolCall:
        """Returns the call, with its errors and with its arguments converted to what the schema
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

    def _read_name(self, stops: str, barred: str = "\n<") -> Steps[str]:
        """Reads a name, key or id, up to one of the characters that can follow it; none of the
        barred ones is in it."""
        name = ""
        while (character := (yield from self._buffer.need())) not in stops:
            name += self._buffer.take(1)
            if len(name) > MAX_NAME_LENGTH or character in barred:
                raise NotACallError
        return name.strip()

    def _read_tool_name(self, after: Sequence[CallNode]) -> Steps[str]:
        """Reads a name up to the text after it. If that text begins with a character that names may
        contain (`.call(`), the name ends only before all of the text."""
        first = after[0] if after else None
        if not isinstance(first, Literal) or first.text[:1] not in tuple("._-"):
            stops = _find_stops(after)
            if self._recover and isinstance(first, TaggedArguments):
                stops += "\n"  # which models add
            return (yield from self._read_name(stops, "\n<{"))
        return (yield from self._buffer.name_before(first.text, "\n<"))

    def _read_last_word(self, pattern: str) -> Steps[str]:
        """Reads an id at the end of a call: it ends at the first character that does not match, or
        with the text."""
        word = ""
        with suppress(CutError):
            while len(word) <= MAX_NAME_LENGTH:
                character = yield from self._buffer.need()
                if not (character.isalnum() or character in "_-"):
                    break
                word += self._buffer.take(1)
        if re.fullmatch(pattern, word):
            return word
        raise CutError if self._buffer.closed and not self._buffer.rest else NotACallError

    def _read_handle(self, node: Handle) -> Steps[tuple[str, str | None]]:
        """Reads name and id from a text without white space, up to a tag."""
        text = ""
        while (character := (yield from self._buffer.need())) != "<" and not character.isspace():
            text += self._buffer.take(1)
            if len(text) > MAX_NAME_LENGTH:
                break
        if (found := node.read(text, self._tools)) is None:
            raise NotACallError
        return found

    def _read_json(self, node: JsonCall | JsonArguments, parts: _CallParts) -> Steps[None]:
        """Reads a JSON object: a call, or its arguments."""
        yield from self._buffer.space()
        if (yield from self._buffer.need()) != "{":
            raise NotACallError
        parts.is_held = isinstance(node, JsonArguments) and not parts.name
        sink = _SILENT if parts.is_held else self._sink
        writer = JsonWriter(node, sink)
        name: Json = ""
        id: Json = None
        try:
            text = yield from self._buffer.value(writer.scanner, writer.feed)
            arguments: Json = read_value(text, node.style)
            if isinstance(node, JsonCall):
                name, id = arguments.get(node.name_key), arguments.get(node.id_key)
                arguments = self._find_arguments(node, arguments)
            writer.end(name, arguments)
        except ValueError as e:
            if isinstance(e, DeepJsonError) and not self._recover:
                raise  # a mask does not limit the depth, so this is a call, not text
            raise NotACallError from None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise NotACallError
        parts.name = name or parts.name
        parts.arguments = cast(dict[str, Json], arguments)
        if not isinstance(node, JsonCall) or id in (None, ""):
            return
        if not isinstance(id, str | int) or isinstance(id, bool):
            raise NotACallError
        if isinstance(node.id, CallIndex):
            parts.counter, parts.index = node.id, str(id)
        else:
            parts.id = str(id)

    def _read_encoded(self, node: JsonArguments, parts: _CallParts) -> Steps[None]:
        """Reads arguments that are JSON in a JSON string. The sink gets them when they are
        complete."""
        yield from self._buffer.space()
        string = yield from self._buffer.quoted()
        try:
            arguments: Json = read_value(str(read_json(string)), node.style)
        except ValueError as e:
            if isinstance(e, DeepJsonError) and not self._recover:
                raise
            raise NotACallError from None
        if not isinstance(arguments, dict):
            raise NotACallError
        parts.arguments = cast(dict[str, Json], arguments)
        if parts.name:
            self._sink.add_all(parts.arguments)
        else:
            parts.is_held = True

    def _find_arguments(self, node: JsonCall, value: dict[str, Json]) -> Json:
        """Returns the arguments in a JSON call. In recovery, they may be missing, or text."""
        known = (node.name_key, node.id_key, node.arguments_key)
        if any(key not in known for key in value):
            raise NotACallError  # something would be lost
        if not self._recover:
            return value.get(node.arguments_key)
        arguments = value.get(node.arguments_key, {})
        return read_json(arguments) if isinstance(arguments, str) else arguments

    def _read_tagged(self, tags: TaggedArguments, parts: _CallParts) -> Steps[None]:
        """Reads all arguments between tags; of a repeated one, the first that is not empty."""
        raws: dict[str, Raw] = {}
        tool = self._tools.get(parts.name)
        writer = TaggedWriter(tool.schema if tool else None, self._sink, tags.style)
        opener = tags.open.strip()
        pad = tags.open[len(tags.open.rstrip()) :]
        empty = tags.end if tags.empty is None else tags.empty
        yield from self._buffer.space()
        stray = tags.close.strip()
        if self._recover and has_tag(stray) and (yield from self._buffer.begins(stray)):
            self._buffer.take(len(stray))
            yield from self._buffer.space()
        # The longest first: the end may begin like an argument.
        options = sorted((opener, tags.end.strip(), empty.strip()), key=len, reverse=True)
        stop = yield from self._buffer.literal(*options)
        has_more = stop == opener
        yield from self._buffer.skip(pad)
        while has_more:
            key = yield from self._read_name(_find_first(tags.after_key))
            is_text = yield from self._take_kind(tags)
            is_wrapped = yield from self._take_wrapper(tags)
            is_text = True if is_wrapped else is_text
            writer.open(key, is_text)
            if not is_wrapped:
                yield from self._read_container(tags.style, writer)
            stops = self._find_terminators(tags.of(key), is_wrapped=is_wrapped)
            found = yield from self._buffer.until(stops, writer.feed)
            if found is None:
                raise CutError
            raw: Raw = writer.close()
            if is_text is not None:
                raw = TypedText(raw, is_text, tags.style)
            raws[key] = raws.get(key) or raw
            has_more = found.rstrip().endswith(opener)
            if not opener:  # a key begins a line
                has_more = not found.rstrip().endswith(tags.end.strip())
            rest = tags.rest_of_end
            if has_more and rest and (yield from self._buffer.begins(rest)):
                self._buffer.take(len(rest))
                has_more = False
            if not found.endswith(pad):  # in recovery
                yield from self._buffer.skip(pad)
        self._coerce(raws, parts, tool=tool, style=tags.style)
        writer.end(parts.arguments)

    def _take_wrapper(self, tags: TaggedArguments) -> Steps[bool]:
        """Takes the opener of the wrapper of a string; returns whether there was one."""
        if tags.wrapper is None:
            return False
        opener = tags.wrapper.opener
        if self._recover:
            found = yield from self._buffer.sees(opener)
        else:
            found = yield from self._buffer.begins(opener)
        if found:
            yield from self._buffer.space()
            self._buffer.take(len(opener))
        return found

    def _read_container(self, style: JsonStyle, writer: TaggedWriter) -> Steps[None]:
        """Reads a list or object, if the value cannot be text: its strings may contain what ends a
        raw value. Without a mask, it may have no end."""
        if self._recover or not writer.is_spelled:
            return
        yield from self._buffer.need()
        if self._buffer.rest[0] in "[{":
            with suppress(FaultError):
                yield from self._buffer.value(make_scanner(style), writer.feed)

    def _read_keywords(self, node: KeywordArguments, parts: _CallParts) -> Steps[None]:
        """Reads all keyword arguments."""
        tool = self._tools.get(parts.name)
        schema = tool.schema if tool else None
        ends = find_ends(self._format, self._tools, schema)
        writer = TaggedWriter(schema, self._sink, node.style)
        raws = yield from KeywordArgumentsReader(node, self._buffer, ends, writer).read()
        self._coerce(raws, parts, tool=tool, style=node.style)
        writer.end(parts.arguments)

    def _coerce(
        self, raws: Mapping[str, Raw], parts: _CallParts, *, tool: Tool | None, style: JsonStyle
    ) -> None:
        """Converts raw arguments to the types of the tool's schema."""
        if tool is None:
            parts.arguments = read_undeclared(raws)
        else:
            parts.arguments, parts.errors = coerce_members(raws, tool.schema, style)

    def _read_nested(self, node: NestedArguments, parts: _CallParts) -> Steps[None]:
        """Reads all arguments between nested tags."""
        tool = self._tools.get(parts.name)
        schema = tool.schema if tool else None
        objects = schema.objects if schema else [Object()]
        trees = TreeReader(node, schema.definitions if schema else {})
        writer = NestedWriter(schema, self._sink)
        reader = NestedArgumentsReader(
            hole=node,
            buffer=self._buffer,
            writer=writer,
            read_value=lambda key, tree: trees.member(key, tree, objects[0]),
        )
        parts.arguments = trees.members((yield from reader.read()), objects)
        writer.end(parts.arguments)

    def _take_kind(self, tags: TaggedArguments) -> Steps[bool | None]:
        """Takes the text between key and value. Returns whether it marks the value as text; None:
        it does not say the type."""
        if not tags.kinds:
            yield from self._take_text(tags.after_key)
            return None
        texts = list_text_kinds(tags)
        options = {tags.after_key + kind + tags.after_kind: kind in texts for _, kind in tags.kinds}
        found = yield from self._buffer.literal(*options)
        return options[found]

    def _take_text(self, text: str) -> Steps[None]:
        """Takes this text; newlines at its end may be missing. In recovery, there may be any white
        space between two tags in it."""
        visible = text.rstrip("\n")
        tags = _BETWEEN_TAGS.split(visible) if self._recover else [visible]
        yield from self._buffer.literal(tags[0])
        for tag in tags[1:]:
            yield from self._buffer.space()
            yield from self._buffer.literal(tag)
        yield from self._buffer.skip(text[len(visible) :])

    def _find_terminators(self, tags: TaggedArguments, *, is_wrapped: bool) -> tuple[str, ...]:
        """Returns the texts that end a raw value: its closing tag together with the next tag, after
        the closer of its wrapper, if it has one."""
        following = (tags.open, tags.end)
        end = tags.wrapper.closer if tags.wrapper and is_wrapped else ""
        terminators = [end + tags.close + tag for tag in following]
        if self._recover:
            lines = ("\n", "") if tags.close.startswith("\n") or is_wrapped else ("",)
            for before, after in product(lines, ("\n", "", "\n\n")):
                closer = end + before + tags.close.strip() + after
                terminators += [closer + tag.strip() for tag in following]
        return tuple(dict.fromkeys(terminators))

    def _take_loosely(self, text: str) -> Steps[None]:
        """Takes this text, after any white space."""
        if not text.isspace():
            yield from self._buffer.space()
            yield from self._buffer.literal(text.strip())

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
    """Returns the openers of calls, each with the ways to write a call after it.

    Args:
        format: the wire format.
        recover: include common variants. Then a format with message headers has no openers, since
            `HeaderReader` reads the headers.
    """
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


def find_ways(format: Format, *, recover: bool) -> Sequence[Sequence[CallNode]]:
    """Returns the ways to write a further call in a group; arguments as for `find_openings`."""
    if not recover:
        return (format.call,)
    return (format.call, *format.variants) if format.headers is None else ()


@dataclass(frozen=True)
class Closers:
    """The tags that close calls.

    Args:
        of_call: those of one call, and of its values.
        of_group: those of all calls of a turn.
        heads: what the closers of another version begin with.
    """

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
    match format.hole:
        case TaggedArguments(close=close, end=end):
            texts += [close, end]
        case _:
            pass
    of_group = _list_tags(format, [node.text for node in group])
    of_call = tuple(text for text in _list_tags(format, texts) if text not in of_group)
    return Closers(of_call, of_group, heads=tuple(f"</{head}" for head in format.tag_heads))


def _list_tags(format: Format, texts: Iterable[str]) -> tuple[str, ...]:
    """Returns those of the texts that have a tag and open nothing, the longest first."""
    openers = (*format.openings, *format.content_openers, format.start)
    tags: list[str] = []
    for text in map(str.strip, texts):
        if has_tag(text) and not any(opener.startswith(text) for opener in openers):
            tags.append(text)
    return tuple(sorted(dict.fromkeys(tags), key=len, reverse=True))


def _find_stops(nodes: Sequence[CallNode]) -> str:
    """Returns the characters that can end a name before these nodes."""
    before = ""
    for i, node in enumerate(nodes):
        match node:
            case Literal(text) | Marker(text):
                before += text
                if before.strip():
                    return _find_first(before)
            case TaggedArguments():
                tags = (node.open, node.end, node.empty or "")
                return _find_first(*(before + tag for tag in tags))
            case JsonArguments(encoded=True):
                return _find_first(before + '"', before + "{")
            case JsonCall() | JsonArguments():
                return _find_first(before + "{")
            case NestedArguments(mark):
                return _find_first(before + mark)
            case KeywordArguments():
                after = Literal(before + node.empty)
                return _find_first(before + node.first) + _find_stops((after, *nodes[i + 1 :]))
            case _:
                return before
    return before


def _find_first(*texts: str) -> str:
    """Returns the first visible characters of these texts, and the newline if a text begins with
    one. If a line begins with a word (`arguments:`) or a dash, only the newline, since names may
    contain such characters."""
    first = ""
    for text in texts:
        visible = text.lstrip("\r\n")[:1]
        is_word = visible.isalnum() or visible in tuple("._-")
        first += "" if is_word and text.startswith("\n") else visible
        first += "\n" if text.startswith("\n") and "\n" not in first else ""
    return first
