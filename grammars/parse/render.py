"""Renders a turn as text: the inverse of `parse`. Refuses what would be ambiguous in the format.

Needs `spelling`, `wire`, `schema`. Start with `render`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from grammars.errors import RenderError
from grammars.schema.json_values import Json
from grammars.schema.nodes import Constant, Object, escape, flatten
from grammars.schema.numbers import are_equal
from grammars.spelling.coerce import Raw, TypedText, coerce_members
from grammars.spelling.json_call import (
    begin_call,
    close_json_call,
    cut_opening,
    encode_string,
    open_json_call,
    style_arguments,
)
from grammars.spelling.keyword_arguments import find_ends, spell_fixed
from grammars.spelling.keyword_arguments import is_key as is_keyword
from grammars.spelling.names import check_name
from grammars.spelling.nested import Tree, TreeReader, is_text
from grammars.spelling.nested import is_key as is_nested_key
from grammars.spelling.styles import holds, sort_keys, spell
from grammars.spelling.tagged import (
    excludes_containers,
    is_key,
    is_wrappable,
    is_writable,
    spell_string,
)
from grammars.turn import Start, State, Tool, ToolCall, Turn
from grammars.wire.format import (
    CallId,
    CallIndex,
    ContentPlace,
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
    find_kind,
)


def render(
    turn: Turn, format: Format, tools: Sequence[Tool] = (), state: State | None = None
) -> str:
    """Returns the text of a turn as the model writes it after the prompt, without the end of turn.

    Args:
        turn: the turn.
        format: its wire format.
        tools: the tools; their schemas decide how raw text is read back.
        state: the start state at the end of the prompt; an open block is not opened again.

    Raises:
        RenderError: the text could be read back as something else; `where` names the part.
        ToolError: the format cannot write the name of a call.
    """
    state = state or State()
    if not format.escapes_content:
        _refuse_markers(turn.content, format, "/content")
    _refuse_bare(turn, format)
    body = _content(turn, format)
    if turn.calls:
        calls = _calls(turn.calls, format, tools, state)
        if format.content_places[0] is ContentPlace.AFTER:
            body = calls + format.after + body if body else calls
        elif format.content_places[0] is ContentPlace.INSIDE:
            opener = format.opening[0].text
            body = opener + body + calls.removeprefix(opener)
        else:
            _refuse_overlap(turn.content, format)
            body = join_before(body, calls, format)
    if body or not state.lead:
        body = format.head + body
    if body and not body.startswith(state.lead):
        message = (
            f"the prompt begins the turn with {state.lead!r}, but this turn begins differently"
        )
        raise RenderError(message, where="/content" if turn.content else "/calls")
    head = _header(turn, format, state)
    return head + _reasoning(turn, format, state) + body.removeprefix(state.lead)


def _header(turn: Turn, format: Format, state: State) -> str:
    """Returns the header that the prompt lacks, if the template writes it in front of such a
    turn."""
    late = format.late_header
    if late is None or not state.header:
        return ""
    is_written = late.before_calls if turn.calls else late.before_content
    return state.header if is_written else ""


def render_opening(format: Format, name: str, state: State | None = None) -> str:
    """Returns the text with which the first call of a turn begins, up to its arguments, or up to an
    id that the model makes up.

    Args:
        format: its wire format.
        name: of the tool.
        state: has the number of calls in the conversation before this turn.
    """
    text = spell_fixed(format.opening)
    calls = None if state is None else state.calls
    for node in format.call:
        match node:
            case Literal(part) | Marker(part):
                text += part
            case Name():
                text += name
            case CallIndex() if (index := node.count(calls, 0)) is not None:
                text += str(index)
            case JsonCall():
                index = None
                if isinstance(node.id, CallIndex):
                    index = node.id.count(calls, 0)
                for piece in cut_opening(node, name, None if index is None else str(index)):
                    if not isinstance(piece, str):
                        break
                    text += piece
                return text
            case _:
                return text
    return text


def join_before(content: str, calls: str, format: Format) -> str:
    """Returns the calls, with the content before them if there is some."""
    return content + format.before + calls if content else calls


def _content(turn: Turn, format: Format) -> str:
    if turn.calls and turn.content and not turn.content.strip():
        raise RenderError("white space before a call is not content", where="/content")
    if not turn.content:
        return ""
    for wrapping in format.contents:
        if wrapping.calls or not turn.calls:
            return wrapping.opener + wrapping.spell(turn.content) + wrapping.closer
    raise RenderError(f"format {format.name} allows no content next to a call", where="/content")


def _reasoning(turn: Turn, format: Format, state: State) -> str:
    block = format.reasoning
    has_place = block is not None and state.start is not Start.CLOSED
    if turn.reasoning and not has_place:
        raise RenderError("the turn has no reasoning block here", where="/reasoning")
    if state.start is Start.CLOSED:
        return state.pad
    if block is None or (state.start is Start.PLAIN and not turn.reasoning):
        return ""
    _refuse_markers(turn.reasoning, format, "/reasoning")
    if block.pad_close + block.closer.text in turn.reasoning:
        message = f"the reasoning contains {block.closer.text!r}, which ends it"
        raise RenderError(message, where="/reasoning")
    opener = block.opener.text + block.pad_open
    if state.start is Start.OPEN:
        opener = state.pad
    return opener + turn.reasoning + block.pad_close + block.closer.text + block.after


def _refuse_markers(text: str, format: Format, where: str) -> None:
    for marker in format.reserved:
        if marker in text:
            raise RenderError(f"the text contains the marker {marker}", where=where)


def _refuse_overlap(content: str, format: Format) -> None:
    """Refuses content whose end could begin the marker after it: `<b>` before `>>>`."""
    marker = format.opener.text if format.opener else ""
    text = content + format.before
    if content and (text + marker).find(marker) < len(text):
        raise RenderError(f"the text runs into the marker {marker}", where="/content")


def _refuse_bare(turn: Turn, format: Format) -> None:
    """Refuses content beside calls if no marker opens calls."""
    if format.single and len(turn.calls) > 1:
        raise RenderError(f"format {format.name} allows only one call per turn", where="/calls/1")
    if format.bare is None:
        return
    if turn.calls and turn.content:
        message = f"format {format.name} allows no content next to a call"
        raise RenderError(message, where="/content")
    if not format.escapes_content and re.match(begin_call(format), turn.content):
        raise RenderError("the content starts like a call", where="/content")


def _calls(calls: Sequence[ToolCall], format: Format, tools: Sequence[Tool], state: State) -> str:
    known = {tool.name: tool for tool in tools}
    written = [
        _CallWriter(call, number, format, known, state).write() for number, call in enumerate(calls)
    ]
    opening, between, closing = format.opening, format.between, format.closing
    if format.several is not None and len(calls) > 1:
        several = format.several
        opening, between, closing = several.opening, several.between, several.closing
    return spell_fixed(opening) + between.join(written) + spell_fixed(closing)


class _CallWriter:
    """Writes one call.

    Args:
        call: the call.
        number: the number of calls of the turn before this one.
        format: the wire format.
        tools: the offered tools, by name.
        state: has the number of calls in the conversation before this turn.
    """

    def __init__(
        self,
        call: ToolCall,
        number: int,
        format: Format,
        tools: Mapping[str, Tool],
        state: State,
    ):
        self._call = call
        self._number = number
        self._format = format
        self._tools = tools
        self._state = state
        self._tool = tools.get(call.name)
        self._where = f"/calls/{number}"

    def write(self) -> str:
        """Returns the text of the call.

        Raises:
            RenderError, ToolError: as for `render`.
        """
        check_name(self._format, self._call.name)
        try:
            json.dumps(self._call.arguments, allow_nan=False, ensure_ascii=False).encode()
        except ValueError as e:
            raise RenderError(f"not JSON: {e}", where=f"{self._where}/arguments") from e
        text = ""
        for node in self._format.call:
            match node:
                case Literal(part) | Marker(part):
                    text += part
                case Name():
                    text += self._call.name
                case CallId() | CallIndex():
                    text += self._id(node)
                case JsonCall():
                    text += self._json_call(node)
                case JsonArguments():
                    text += encode_string(self._json(node.style), node)
                case TaggedArguments():
                    text += self._tagged(node)
                case KeywordArguments():
                    text += self._keywords(node)
                case NestedArguments():
                    text += self._nested(node)
        return text

    def _at(self, key: str) -> str:
        """Returns the JSON pointer to an argument."""
        return f"{self._where}/arguments/{escape(key)}"

    def _id(self, node: CallId | CallIndex) -> str:
        """Returns the id in the format's spelling; the number of the call if it has no id that
        fits."""
        if isinstance(node, CallIndex):
            written = _read_index(node, self._call.name, self._call.id)
            return written or str(node.count(self._state.calls or 0, self._number))
        id = f"{self._number:09}" if self._call.id is None else self._call.id
        if not re.fullmatch(node.pattern, id):
            message, hint = f"the id {id!r} cannot be written", f"It must match {node.pattern}"
            raise RenderError(message, where=f"{self._where}/id", hint=hint)
        return id

    def _json_call(self, node: JsonCall) -> str:
        id = self._id(node.id) if node.id else ""
        arguments = self._json(style_arguments(node))
        return open_json_call(node, self._call.name, id) + arguments + close_json_call(node, id)

    def _json(self, style: JsonStyle) -> str:
        if not holds(self._call.arguments, style):
            message = "a key or string has text that the format cannot represent"
            raise RenderError(message, where=f"{self._where}/arguments")
        return spell(self._call.arguments, style)

    def _tagged(self, tags: TaggedArguments) -> str:
        arguments = self._call.arguments
        raws = {key: _spell_raw(value, tags) for key, value in arguments.items()}
        typed_raws = {
            key: _mark_as_text(value, raws[key], tags) for key, value in arguments.items()
        }
        read = arguments
        if self._tool:
            read = coerce_members(typed_raws, self._tool.schema, tags.style)[0]
        text = ""
        for key in sort_keys(arguments, tags):
            value = arguments[key]
            self._refuse_undeclared(key, tags)
            self._refuse_tagged(key, raws[key], read[key], tags.of(key))
            text += tags.open + key + tags.after_key
            if tags.kinds:
                text += find_kind(tags, value) + tags.after_kind
            text += raws[key] + tags.of(key).close
        if not raws and tags.empty is not None:
            return tags.empty
        return text + tags.end

    def _refuse_undeclared(self, key: str, tags: TaggedArguments) -> None:
        """Refuses an argument that the grammar cannot write: no schema declares it, and its closing
        tag contains its key."""
        if self._tool is None or tags.close_key is None:
            return
        if any(p.key == key for node in self._tool.schema.objects for p in node.properties):
            return
        message = f"the key {key!r} is not declared, so its closing tag is not known"
        raise RenderError(message, where=self._at(key))

    def _refuse_tagged(self, key: str, raw: str, read: Json, tags: TaggedArguments) -> None:
        """Refuses an argument whose raw text would not be read back as its value."""
        value, where = self._call.arguments[key], self._at(key)
        if not is_key(key, tags):
            raise RenderError(f"the key {key!r} cannot be written between tags", where=where)
        is_wrapped = raw != value and isinstance(value, str)
        is_closed = is_wrappable(value, tags) if is_wrapped else is_writable(raw, tags)
        if not is_closed:
            raise RenderError("the value contains its own closing tag", where=where)
        if not are_equal(read, value):
            raise RenderError(f"{value!r} would be read back as {read!r}", where=where)
        if self._tool is None or not isinstance(value, str) or is_wrapped:
            return
        if not _is_distinguishable(value, key, self._tool, tags):
            raise RenderError(
                "where objects or lists are allowed too, text cannot begin like one", where=where
            )

    def _keywords(self, hole: KeywordArguments) -> str:
        schema = self._tool.schema if self._tool else None
        ends = find_ends(self._format, self._tools, schema)
        items: list[str] = []
        for key in sort_keys(self._call.arguments, hole):
            value = self._call.arguments[key]
            if not is_keyword(key, hole):
                message = f"the key {key!r} cannot be written in such a call"
                raise RenderError(message, where=self._at(key))
            is_raw = isinstance(value, str) and bool(hole.quote)
            if is_raw and not ends.holds(str(value), hole.quote):
                raise RenderError("the value contains what would end it", where=self._at(key))
            items.append(key + hole.after_key + _spell_keyword_value(value, hole))
        return hole.first + hole.item.join(items) + hole.last if items else hole.empty

    def _nested(self, hole: NestedArguments) -> str:
        """Writes the arguments as the template does, except that null values are written, too."""
        tree = _grow_tree(self._call.arguments, hole, f"{self._where}/arguments")
        if self._tool is not None:
            reader = TreeReader(hole, self._tool.schema.definitions)
            read = reader.members(tree, self._tool.schema.objects)
            for key, value in self._call.arguments.items():
                if not are_equal(read[key], value):
                    message = f"{value!r} would be read back as {read[key]!r}"
                    raise RenderError(message, where=self._at(key))
        return _write_tree(tree, hole)


def _read_index(node: CallIndex, name: str, id: str | None) -> str | None:
    """Reads the index from a call's id; None: the id has none."""
    if not node.id:
        return None
    pattern = re.escape(node.id.replace("{name}", name)).replace(r"\{index\}", "([0-9]+)")
    match = re.fullmatch(pattern, id or "")
    return match[1] if match else None


def _is_distinguishable(text: str, key: str, tool: Tool, tags: TaggedArguments) -> bool:
    """Returns whether the text of an argument cannot be the beginning of an object or a list."""
    if tags.kinds or not text.startswith(("{", "[")):
        return True
    definitions = tool.schema.definitions
    objects = [node for node in flatten(tool.schema.node, definitions) if isinstance(node, Object)]
    for object_ in objects:
        argument = object_.find(key)
        if argument is None:
            continue
        branches = list(flatten(argument.node, definitions))
        listed = any(isinstance(b, Constant) and text in b.values for b in branches)
        if listed or not excludes_containers(branches):
            return True
    return not objects


def _spell_raw(value: Json, tags: TaggedArguments) -> str:
    match value:
        case str():
            return spell_string(value, tags)
        case True:
            return tags.true[0]
        case False:
            return tags.false[0]
        case None:
            return tags.null[0]
        case _:
            return spell(value, tags.style)


def _mark_as_text(value: Json, raw: str, tags: TaggedArguments) -> Raw:
    """Returns the raw text of a value as the parser reads it: wrapped text is marked as a
    string."""
    if isinstance(value, str) and raw != value:
        return TypedText(value, is_text=True, style=tags.style)
    return raw


def _spell_keyword_value(value: Json, hole: KeywordArguments) -> str:
    match value:
        case str():
            return hole.quote + value + hole.quote if hole.quote else spell(value, hole.escaped)
        case dict():
            return spell(value, hole.objects)
        case _:
            return spell(value, hole.style)


def _grow_tree(value: Json, hole: NestedArguments, where: str) -> Tree:
    """Returns the tags of a value.

    Raises:
        RenderError: a key or a text cannot be written between tags.
    """
    match value:
        case str():
            if not is_text(value, hole):
                raise RenderError("the value contains the mark of a tag", where=where)
            return Tree(value)
        case list():
            tree = Tree()
            for i, item in enumerate(cast(list[Json], value)):
                tree.members.append((hole.item, _grow_tree(item, hole, f"{where}/{i}")))
            return tree
        case dict():
            members = cast(dict[str, Json], value)
            for key in members:
                if not is_nested_key(key):
                    message = f"the key {key!r} cannot be written between tags"
                    raise RenderError(message, where=f"{where}/{escape(key)}")
            tree = Tree()
            for key, member in members.items():
                tree.members.append((key, _grow_tree(member, hole, f"{where}/{escape(key)}")))
            return tree
        case _:
            return Tree(spell(value, hole.style))


def _write_tree(tree: Tree, hole: NestedArguments) -> str:
    text = tree.text
    for key, inner in tree.members:
        text += hole.open(key) + _write_tree(inner, hole) + hole.close(key)
    return text
