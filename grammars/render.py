"""Turn -> text: the inverse of `parse`. What the format cannot write unambiguously is refused."""

import json
import re
from collections.abc import Mapping, Sequence

from grammars.build.calls import check_name
from grammars.build.json_call import (
    begin_call,
    close_json_call,
    open_json_call,
    style_arguments,
)
from grammars.errors import RenderError
from grammars.render.nested import render_nested
from grammars.render.python import render_python
from grammars.schema.nodes import Constant, Json, Object, escape, flatten
from grammars.schema.numbers import are_equal
from grammars.spelling.coerce import coerce_members
from grammars.spelling.python import find_ends
from grammars.spelling.styles import holds, spell
from grammars.spelling.tagged import excludes_containers, is_key
from grammars.turn import Start, State, Tool, ToolCall, Turn
from grammars.wire.format import (
    CallId,
    CallIndex,
    Fixed,
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
    find_kind,
)


def render(
    turn: Turn, format: Format, tools: Sequence[Tool] = (), state: State | None = None
) -> str:
    """The text of a turn, as the model writes it behind the prompt, without the end of turn.

    Args:
        turn: what to write.
        format: how.
        tools: the schemas of the tools, by which raw text is read back.
        state: where the prompt ends; an open block is not opened again.

    Raises:
        RenderError: the text could be read back as something else; `where` names the part.
    """
    state = state or State()
    _refuse_markers(turn.content, format, "/content")
    _refuse_bare(turn, format)
    body = _content(turn, format)
    if turn.calls:
        _refuse_overlap(turn.content, format)
        body += format.before if turn.content else ""
        schemas = {t.name: t for t in tools}
        written = [_call(call, format, schemas, i, state) for i, call in enumerate(turn.calls)]
        body += _fixed(format.opening) + format.between.join(written) + _fixed(format.closing)
    if body and not body.startswith(state.lead):
        message = f"the prompt has begun with {state.lead!r}, which such a turn does not"
        raise RenderError(message, where="/content" if turn.content else "/calls")
    return _reasoning(turn, format, state) + body.removeprefix(state.lead)


def _content(turn: Turn, format: Format) -> str:
    if turn.calls and turn.content and not turn.content.strip():
        raise RenderError("white space before a call is not content", where="/content")
    if not turn.content:
        return ""
    way = next((c for c in format.contents if c.calls or not turn.calls), None)
    if way is None:
        message = f"format {format.name} has no content beside a call"
        raise RenderError(message, where="/content")
    return way.opener + turn.content + way.closer


def _fixed(nodes: Sequence[Fixed]) -> str:
    return "".join(node.text for node in nodes)


def _reasoning(turn: Turn, format: Format, state: State) -> str:
    block = format.reasoning
    if (
        block is None
        or (state.start is Start.CLOSED)
        or (not turn.reasoning and state.start is Start.PLAIN)
    ):
        if turn.reasoning:
            raise RenderError("there is no place for reasoning", where="/reasoning")
        return state.pad if state.start is Start.CLOSED else ""
    _refuse_markers(turn.reasoning, format, "/reasoning")
    opener = state.pad if state.start is Start.OPEN else block.opener.text + block.pad_open
    return opener + turn.reasoning + block.pad_close + block.closer.text + block.after


def _refuse_markers(text: str, format: Format, where: str) -> None:
    for marker in format.reserved:
        if marker in text:
            raise RenderError(f"the text contains the marker {marker}", where=where)


def _refuse_overlap(content: str, format: Format) -> None:
    """Content may not end as the marker behind it begins: `<b>` in front of `>>>`."""
    marker = format.opener.text if format.opener else ""
    text = content + (format.before if content else "")
    if content and (text + marker).find(marker) < len(text):
        message = f"the text runs into the marker {marker}"
        raise RenderError(message, where="/content")


def _refuse_bare(turn: Turn, format: Format) -> None:
    """Where no marker opens calls, a turn is content or one call."""
    if format.single and len(turn.calls) > 1:
        raise RenderError(f"format {format.name} has one call in a turn", where="/calls/1")
    if format.bare is None:
        return
    if turn.calls and turn.content:
        message = f"format {format.name} has no content beside a call"
        raise RenderError(message, where="/content")
    if re.match(begin_call(format.bare), turn.content):
        raise RenderError("the content begins as a call does", where="/content")


def _call(
    call: ToolCall, format: Format, tools: Mapping[str, Tool], number: int, state: State
) -> str:
    check_name(format, call.name)
    tool = tools.get(call.name)
    where = f"/calls/{number}"
    try:
        json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as e:
        raise RenderError(f"not JSON: {e}", where=f"{where}/arguments") from e
    text = ""
    for node in format.call:
        match node:
            case Literal(part) | Marker(part):
                text += part
            case Name():
                text += call.name
            case CallId() | CallIndex():
                text += _id(call, node, number, state)
            case JsonCall():
                id = _id(call, node.id, number, state) if node.id else ""
                arguments = _spell(call, style_arguments(node), where)
                text += open_json_call(node, call.name, id) + arguments + close_json_call(node, id)
            case JsonArguments():
                text += _spell(call, node.style, where)
            case TaggedArguments():
                text += _tagged(call, node, tool, where)
            case PythonArguments():
                ends = find_ends(format, tools, tool.schema if tool else None)
                text += render_python(call, node, ends, where)
            case NestedArguments():
                text += render_nested(call, node, tool, where)
    return text


def _spell(call: ToolCall, style: JsonStyle, where: str) -> str:
    if not holds(call.arguments, style):
        message = "a key or string holds what the format cannot write"
        raise RenderError(message, where=f"{where}/arguments")
    return spell(call.arguments, style)


def _id(call: ToolCall, node: CallId | CallIndex, number: int, state: State) -> str:
    """The id as the format writes it; the number of the call where it has none that fits."""
    if isinstance(node, CallIndex):
        written = read_index(node, call.name, call.id)
        return written or str(node.count(state.calls or 0, number))
    id = f"{number:09}" if call.id is None else call.id
    if not re.fullmatch(node.pattern, id):
        hint = f"It is {node.pattern}"
        raise RenderError(
            f"the id {id!r} cannot be written", where=f"/calls/{number}/id", hint=hint
        )
    return id


def read_index(node: CallIndex, name: str, id: str | None) -> str | None:
    """The index in a call's id."""
    if not node.id:
        return None
    pattern = re.escape(node.id.replace("{name}", name)).replace(r"\{index\}", "([0-9]+)")
    match = re.fullmatch(pattern, id or "")
    return match[1] if match else None


def _tagged(call: ToolCall, tags: TaggedArguments, tool: Tool | None, where: str) -> str:
    text = ""
    raws = {key: _raw(value, tags) for key, value in call.arguments.items()}
    read = coerce_members(raws, tool.schema, tags.style)[0] if tool else call.arguments
    for key, value in call.arguments.items():
        at = f"{where}/arguments/{escape(key)}"
        if not is_key(key, tags):
            raise RenderError(f"the key {key!r} cannot be written between tags", where=at)
        raw = raws[key]
        if tags.close + tags.open[:1] in "\n" + raw + tags.close:
            raise RenderError("the value contains its own closing tag", where=at)
        if not are_equal(read[key], value):
            raise RenderError(f"{value!r} would be read back as {read[key]!r}", where=at)
        if tool and isinstance(value, str) and not _is_told_apart(value, key, tool, tags):
            raise RenderError("text beside objects or lists cannot begin as they do", where=at)
        kind = find_kind(tags, value) + tags.after_kind if tags.kinds else ""
        text += tags.open + key + tags.after_key + kind + raw + tags.close
    return text + (tags.empty if tags.empty is not None and not raws else tags.end)


def _is_told_apart(text: str, key: str, tool: Tool, tags: TaggedArguments) -> bool:
    """Can the text of an argument not be taken for the beginning of an object or a list?"""
    if tags.kinds or not text.startswith(("{", "[")):
        return True
    definitions = tool.schema.definitions
    objects = [b for b in flatten(tool.schema.node, definitions) if isinstance(b, Object)]
    for argument in filter(None, (found.find(key) for found in objects)):
        branches = list(flatten(argument.node, definitions))
        listed = any(isinstance(b, Constant) and text in b.values for b in branches)
        if listed or not excludes_containers(branches):
            return True
    return not objects


def _raw(value: Json, tags: TaggedArguments) -> str:
    match value:
        case str():
            return value
        case True:
            return tags.true[0]
        case False:
            return tags.false[0]
        case None:
            return tags.null[0]
        case _:
            return spell(value, tags.style)
