"""Reads one call from the push buffer: the nodes of a format, interpreted one after the other."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from grammars.parse.arguments import JsonCallText, TaggedText, Tell
from grammars.parse.buffer import Buffer, CutError, NotACallError, Steps
from grammars.parse.nested import NestedReader, NestedText
from grammars.parse.python import PythonReader
from grammars.parse.scanners import FaultError
from grammars.schema.nodes import Json, Object, Unfit
from grammars.schema.numbers import settle
from grammars.spelling.coerce import Raw, Told, coerce_members, untell
from grammars.spelling.nested import TreeReader
from grammars.spelling.python import find_ends
from grammars.spelling.reading import DeepJsonError, read_json, read_value
from grammars.spelling.tagged import tell_text
from grammars.turn import Tool, ToolCall
from grammars.wire.format import (
    LONGEST_NAME,
    CallId,
    CallIndex,
    CallNode,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Name,
    NestedArguments,
    PythonArguments,
    TaggedArguments,
)
from grammars.wire.variants import Handle, OneOf

_ARGUMENT_KEYS = ("arguments", "parameters", "args")
_OTHER_KEYS = ("id", "type", "index")


class CallReader:
    """Reads calls. White space around the parts of a call may be missing or more.

    Args:
        format: how they are written.
        buffer: where the text comes from.
        tools: the tools on offer, by name.
        recover: also read the variants that models write: a missing closer, other keys.
        tell: is told of the name and the arguments of a call while it is read.
    """

    def __init__(
        self,
        format: Format,
        buffer: Buffer,
        tools: Mapping[str, Tool],
        recover: bool,
        tell: Tell | None = None,
    ):
        self._format = format
        self._buffer = buffer
        self._tell: Tell = tell or (lambda name, arguments: None)
        self._tools = tools
        self._recover = recover

    def read(self, nodes: Sequence[CallNode]) -> Steps[ToolCall]:
        """Reads these nodes as a call.

        Raises:
            NotACallError: the text is something else.
            CutError: the text ends inside the call.
        """
        name, id, arguments, errors = "", None, dict[str, Json](), tuple[Unfit, ...]()
        index: tuple[CallIndex, str] | None = None
        for i, node in enumerate(nodes):
            match node:
                case Literal(text):
                    yield from self._loose(text)
                case Name():
                    before, name = name, (yield from self._name(_follow(nodes[i + 1 :]), name))
                    if not before:
                        self._tell(name, "")
                case CallId():
                    id = yield from self._name(_follow(nodes[i + 1 :]))
                case CallIndex():
                    index = node, (yield from self._name(_follow(nodes[i + 1 :])))
                case JsonCall() | JsonArguments():
                    try:
                        members = yield from self._json(node)
                    except DeepJsonError as e:
                        errors = (Unfit("", str(e)),)
                        continue
                    arguments, name = members.arguments, members.name or name
                    match node:
                        case JsonCall(id=CallIndex() as counts) if members.id is not None:
                            index = counts, members.id
                        case _:
                            id = id if members.id is None else members.id
                case TaggedArguments():
                    arguments, errors = yield from self._tagged(node, self._tools.get(name))
                case PythonArguments():
                    arguments, errors = yield from self._python(node, name)
                case NestedArguments():
                    try:
                        arguments = yield from self._nested(node, self._tools.get(name))
                    except DeepJsonError as e:
                        errors = (Unfit("", str(e)),)
                case Marker(text):
                    yield from self._closer(text)
                case OneOf(texts):
                    yield from self._buffer.literal(*texts)
                case Handle():
                    name, id = yield from self._handle(node)
        if index is not None:
            id = _name_index(*index, name)
        if errors and not name:
            return ToolCall(name, arguments, errors, id)
        if (tool := self._tools.get(name)) is None:
            errors = (Unfit("/name", f"no tool is called {name!r}"),)
        else:
            arguments = settle(arguments, tool.schema)
            found = errors or tool.schema.find_errors(arguments)
            errors = tuple(Unfit(f"/arguments{e.pointer}", e.message) for e in found)
        return ToolCall(name, arguments, errors, id)

    def _name(self, stops: str, same: str = "") -> Steps[str]:
        """A name, key or id, up to one of the characters that can follow it.

        Args:
            stops: these characters.
            same: what was read before in the same call, if it is written twice.
        """
        name = ""
        while (character := (yield from self._buffer.need())) not in stops:
            name += self._buffer.take(1)
            if len(name) > LONGEST_NAME or character in "\n<":
                raise NotACallError
        if same and name.strip() != same:
            raise NotACallError
        return name.strip()

    def _handle(self, node: Handle) -> Steps[tuple[str, str | None]]:
        """The name and the id in a text without white space, up to a tag."""
        text = ""
        while (character := (yield from self._buffer.need())) != "<" and not character.isspace():
            text += self._buffer.take(1)
            if len(text) > LONGEST_NAME:
                break
        if (found := node.read(text, self._tools)) is None:
            raise NotACallError
        return found

    def _json(self, node: JsonCall | JsonArguments) -> Steps["_Members"]:
        """What a JSON object tells of a call."""
        yield from self._buffer.space()
        if (yield from self._buffer.need()) != "{":
            raise NotACallError
        name: Json = ""
        id: Json = None
        try:
            text = JsonCallText(node, self._tell)
            arguments: Json = read_value(
                (yield from self._buffer.json(text.feed, node.style)), node.style
            )
            if isinstance(node, JsonCall):
                name, id = arguments.get(node.name_key), arguments.get(node.id_key)
                arguments = self._arguments(node, arguments)
            text.end(name, arguments)
        except ValueError as e:
            if isinstance(e, DeepJsonError) and not self._recover:
                raise  # the mask holds no depth: it is a call, and must not pass for text
            raise NotACallError from None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise NotACallError
        has_id = isinstance(node, JsonCall) and node.id is not None and id is not None
        return _Members(name, cast(dict[str, Json], arguments), str(id) if has_id else None)

    def _arguments(self, node: JsonCall, value: dict[str, Json]) -> Json:
        """The arguments; models also name them otherwise, leave them out, or encode them twice."""
        keys = (node.arguments_key, *(_ARGUMENT_KEYS if self._recover else ()))
        others = (node.name_key, node.id_key, *(_OTHER_KEYS if self._recover else ()))
        if any(key not in keys + others for key in value):
            raise NotACallError  # something else was meant, and would be lost
        if not self._recover:
            return value.get(node.arguments_key)
        arguments = next((value[key] for key in keys if key in value), dict[str, Json]())
        return read_json(arguments) if isinstance(arguments, str) else arguments

    def _tagged(
        self, tags: TaggedArguments, tool: Tool | None
    ) -> Steps[tuple[dict[str, Json], tuple[Unfit, ...]]]:
        """All arguments between their tags; of a repeated one, the first that is not empty."""
        raws: dict[str, Raw] = {}
        text = TaggedText(tool.schema if tool else None, self._tell, tags.style)
        yield from self._buffer.space()
        empty = tags.end if tags.empty is None else tags.empty
        ends = dict.fromkeys((tags.end.strip(), empty.strip()))
        stop = yield from self._buffer.literal(tags.open.strip(), *ends)
        more = stop == tags.open.strip()
        while more:
            key = yield from self._name(_first(tags.after_key))
            told = yield from self._told(tags)
            text.open(key, told)
            yield from self._composite(tags.style, text)
            found = yield from self._buffer.until(self._terminators(tags), text.feed)
            if found is None:
                raise CutError
            raw = text.close()
            raws[key] = raws.get(key) or (raw if told is None else Told(raw, told, tags.style))
            more = found.endswith(tags.open.strip())
        arguments, errors = untell(raws), tuple[Unfit, ...]()
        if tool:
            arguments, errors = coerce_members(raws, tool.schema, tags.style)
        text.end(arguments)
        return arguments, errors

    def _composite(self, style: JsonStyle, text: TaggedText) -> Steps[None]:
        """A list or object where no text can stand: its strings may hold what ends a raw value.
        What a mask has not held may have no end."""
        if self._recover or not text.is_spelled:
            return
        yield from self._buffer.need()
        if self._buffer.rest[0] in "[{":
            with suppress(FaultError):
                yield from self._buffer.json(text.feed, style)

    def _python(
        self, node: PythonArguments, name: str
    ) -> Steps[tuple[dict[str, Json], tuple[Unfit, ...]]]:
        """All arguments of a call in Python."""
        tool = self._tools.get(name)
        schema = tool.schema if tool else None
        ends = find_ends(self._format, self._tools, schema)
        text = TaggedText(schema, self._tell, node.style)
        raws = yield from PythonReader(node, self._buffer, ends, text).read()
        arguments, errors = untell(raws), tuple[Unfit, ...]()
        if schema:
            arguments, errors = coerce_members(raws, schema, node.style)
        text.end(arguments)
        return arguments, errors

    def _nested(self, node: NestedArguments, tool: Tool | None) -> Steps[dict[str, Json]]:
        """All arguments as nested tags."""
        schema = tool.schema if tool else None
        objects, reader = (
            schema.objects if schema else [Object()],
            TreeReader(node, schema.definitions if schema else {}),
        )
        text = NestedText(schema, lambda told: self._tell(None, told))
        members = NestedReader(
            node, self._buffer, text, lambda key, tree: reader.member(key, tree, objects[0])
        )
        arguments = reader.members((yield from members.read()), objects)
        text.end(arguments)
        return arguments

    def _told(self, tags: TaggedArguments) -> Steps[bool | None]:
        """What stands between key and value; is the value told to be text? None: it is not told."""
        if not tags.kinds:
            yield from self._after(tags.after_key)
            return None
        texts = tell_text(tags)
        options = {tags.after_key + told + tags.after_kind: told in texts for _, told in tags.kinds}
        found = yield from self._buffer.literal(*options)
        return options[found]

    def _after(self, text: str) -> Steps[None]:
        """This text; the newlines at its end may be missing."""
        yield from self._buffer.literal(text.rstrip("\n"))
        yield from self._buffer.skip(text[len(text.rstrip("\n")) :])

    def _terminators(self, tags: TaggedArguments) -> tuple[str, ...]:
        """What ends a raw value: its closing tag, but only in front of another tag."""
        tails, tag = (tags.open, tags.end), tags.close.strip()
        strict = tuple(tags.close + tail for tail in tails)
        if not self._recover:
            return strict
        loose = [
            a + tag + b + tail.strip()
            for a in (("\n", "") if tags.close.startswith("\n") else ("",))
            for b in ("\n", "", "\n\n")
            for tail in tails
        ]
        return tuple(dict.fromkeys([*strict, *loose]))

    def _loose(self, text: str) -> Steps[None]:
        """Takes this text, whatever white space stands in front of it."""
        if not text.isspace():
            yield from self._buffer.space()
            yield from self._buffer.literal(text.strip())

    def _closer(self, text: str) -> Steps[None]:
        """Takes the marker that closes a call; models leave it out."""
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


@dataclass(frozen=True)
class _Members:
    """What a JSON object tells of a call; the name is "" where it stands elsewhere."""

    name: str
    arguments: dict[str, Json]
    id: str | None


def _follow(nodes: Sequence[CallNode]) -> str:
    """The characters that can end a name which these nodes follow."""
    before = ""
    for node in nodes:
        match node:
            case Literal(text) | Marker(text):
                before += text
                if before.strip():
                    return _first(before)
            case TaggedArguments():
                return _first(*(before + tag for tag in (node.open, node.end, node.empty or "")))
            case JsonCall() | JsonArguments():
                return _first(before + "{")
            case PythonArguments():
                return before
            case NestedArguments(mark):
                return _first(before + mark)
            case _:
                return before
    return before


def _first(*texts: str) -> str:
    """The first visible characters of these texts, and the end of the line if one begins so."""
    lines = "\n" if any(text.startswith("\n") for text in texts) else ""
    return "".join(text.lstrip("\r\n")[:1] for text in texts) + lines


def _name_index(node: CallIndex, index: str, name: str) -> str | None:
    """The id of a call that is counted."""
    if not index.isdigit():
        raise NotACallError
    return node.id.format(name=name, index=index) if node.id else None
