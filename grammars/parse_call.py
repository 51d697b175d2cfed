"""Reads one call from the push buffer: the nodes of a format, interpreted one after the other."""

from collections.abc import Mapping, Sequence
from typing import cast

from grammars.coerce import DeepJsonError, coerce_members, read_json
from grammars.parse_arguments import JsonCallText, TaggedText, Tell
from grammars.scan import Buffer, CutError, NotACallError, Steps
from grammars.schema import Json, Unfit
from grammars.turn import Tool, ToolCall
from grammars.wire import (
    LONGEST_NAME,
    JsonArguments,
    JsonCall,
    Literal,
    Marker,
    Name,
    Node,
    TaggedArguments,
)

_ARGUMENT_KEYS = ("arguments", "parameters", "args")


class CallReader:
    """Reads calls. White space around the parts of a call may be missing or more.

    Args:
        buffer: where the text comes from.
        tools: the tools on offer, by name.
        recover: also read the variants that models write: a missing closer, other keys.
        tell: is told of the name and the arguments of a call while it is read.
    """

    def __init__(
        self, buffer: Buffer, tools: Mapping[str, Tool], recover: bool, tell: Tell | None = None
    ):
        self._buffer = buffer
        self._tell: Tell = tell or (lambda name, arguments: None)
        self._tools = tools
        self._recover = recover

    def read(self, nodes: Sequence[Node]) -> Steps[ToolCall]:
        """Reads these nodes as a call.

        Raises:
            NotACallError: the text is something else.
            CutError: the text ends inside the call.
        """
        name, arguments, errors = "", dict[str, Json](), tuple[Unfit, ...]()
        for i, node in enumerate(nodes):
            match node:
                case Literal(text):
                    yield from self._loose(text)
                case Name():
                    name = yield from self._name(nodes[i + 1])
                    self._tell(name, "")
                case JsonCall() | JsonArguments():
                    try:
                        found, arguments = yield from self._json(node)
                        name = found or name
                    except DeepJsonError as e:
                        errors = (Unfit("", str(e)),)
                case TaggedArguments():
                    arguments, errors = yield from self._tagged(node, self._tools.get(name))
                case Marker(text):
                    yield from self._closer(text)
        if errors and not name:
            return ToolCall(name, arguments, errors)
        if (tool := self._tools.get(name)) is None:
            errors = (Unfit("/name", f"no tool is called {name!r}"),)
        else:
            found = errors or tool.schema.find_errors(arguments)
            errors = tuple(Unfit(f"/arguments{e.pointer}", e.message) for e in found)
        return ToolCall(name, arguments, errors)

    def _name(self, after: Node) -> Steps[str]:
        """A name or key, up to the text that follows it."""
        stop = after.text.strip() if isinstance(after, Literal | Marker) else ""
        name = ""
        while (character := (yield from self._buffer.need())) != stop[:1]:
            name += self._buffer.take(1)
            if len(name) > LONGEST_NAME or character in "\n<":
                raise NotACallError
        return name.strip()

    def _json(self, node: JsonCall | JsonArguments) -> Steps[tuple[str, dict[str, Json]]]:
        """The name (or "", where it stands elsewhere) and the arguments of a JSON object."""
        yield from self._buffer.space()
        if (yield from self._buffer.need()) != "{":
            raise NotACallError
        name: Json = ""
        try:
            arguments: Json = read_json(
                (yield from self._buffer.json(JsonCallText(node, self._tell).feed))
            )
            if isinstance(node, JsonCall):
                name, arguments = arguments.get(node.name_key), self._arguments(node, arguments)
        except ValueError as e:
            if isinstance(e, DeepJsonError) and not self._recover:
                raise  # the mask holds no depth: it is a call, and must not pass for text
            raise NotACallError from None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise NotACallError
        return name, cast(dict[str, Json], arguments)

    def _arguments(self, node: JsonCall, value: dict[str, Json]) -> Json:
        """The arguments; models also name them otherwise, leave them out, or encode them twice."""
        if not self._recover:
            return value.get(node.arguments_key)
        keys = (node.arguments_key, *_ARGUMENT_KEYS)
        arguments = next((value[key] for key in keys if key in value), dict[str, Json]())
        return read_json(arguments) if isinstance(arguments, str) else arguments

    def _tagged(
        self, tags: TaggedArguments, tool: Tool | None
    ) -> Steps[tuple[dict[str, Json], tuple[Unfit, ...]]]:
        """All arguments between their tags; of a repeated one, the first that is not empty."""
        raws: dict[str, str] = {}
        text = TaggedText(tool.schema if tool else None, self._tell)
        yield from self._buffer.space()
        stop = yield from self._buffer.literal(tags.open, tags.end)
        while stop == tags.open:
            key = yield from self._name(Literal(tags.after_key))
            yield from self._buffer.literal(tags.after_key.rstrip("\n"))
            yield from self._buffer.skip(tags.after_key[len(tags.after_key.rstrip("\n")) :])
            text.open(key)
            found = yield from self._buffer.until(self._terminators(tags), text.feed)
            if found is None:
                raise CutError
            raw = text.close()
            raws[key] = raws.get(key) or raw
            stop = tags.open if found.endswith(tags.open) else tags.end
        arguments, errors = coerce_members(raws, tool.schema) if tool else (dict(raws), ())
        text.end(arguments)
        return arguments, errors

    def _terminators(self, tags: TaggedArguments) -> tuple[str, ...]:
        """What ends a raw value: its closing tag, but only in front of another tag."""
        tails, tag = (tags.open, tags.end), tags.close.strip()
        strict = tuple(tags.close + tail for tail in tails)
        if not self._recover:
            return strict
        loose = [
            a + tag + b + tail for a in ("\n", "") for b in ("\n", "", "\n\n") for tail in tails
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
