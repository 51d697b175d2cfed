"""Turn -> text: the inverse of `parse`. What the format cannot write unambiguously is refused."""

import json
import re
from collections.abc import Sequence

from grammars.coerce import coerce_members
from grammars.errors import RenderError
from grammars.lark import begin_call, check_name, open_json_call
from grammars.lark_values import Rules
from grammars.schema import Json, are_same, escape
from grammars.turn import Start, State, Tool, ToolCall, Turn
from grammars.wire import (
    Format,
    JsonArguments,
    JsonCall,
    Literal,
    Marker,
    Name,
    TaggedArguments,
    is_taggable,
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
    text = _reasoning(turn, format, state)
    _refuse_markers(turn.content, format, "/content")
    _refuse_bare(turn, format)
    if turn.calls and turn.content and not turn.content.strip():
        raise RenderError("white space before a call is not content", where="/content")
    text += turn.content
    if turn.calls:
        text += format.before if turn.content else ""
        schemas = {t.name: t for t in tools}
        written = [
            _call(call, format, schemas.get(call.name), f"/calls/{i}")
            for i, call in enumerate(turn.calls)
        ]
        text += format.between.join(written)
    return text


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


def _call(call: ToolCall, format: Format, tool: Tool | None, where: str) -> str:
    check_name(format, call.name)
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
            case JsonCall():
                arguments = Rules(node.style).spell(call.arguments)
                text += open_json_call(node, call.name) + arguments + "}"
            case JsonArguments():
                text += Rules(node.style).spell(call.arguments)
            case TaggedArguments():
                text += _tagged(call, node, tool, where)
    return text


def _tagged(call: ToolCall, tags: TaggedArguments, tool: Tool | None, where: str) -> str:
    text = ""
    raws = {key: _raw(value, tags) for key, value in call.arguments.items()}
    read = coerce_members(raws, tool.schema)[0] if tool else call.arguments
    for key, value in call.arguments.items():
        at = f"{where}/arguments/{escape(key)}"
        if not is_taggable(key):
            raise RenderError(f"the key {key!r} cannot be written between tags", where=at)
        raw = raws[key]
        if tags.close + "<" in "\n" + raw + tags.close:
            raise RenderError("the value contains its own closing tag", where=at)
        if not are_same(read[key], value):
            raise RenderError(f"{value!r} would be read back as {read[key]!r}", where=at)
        text += tags.open + key + tags.after_key + raw + tags.close
    return text + tags.end


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
            return Rules(tags.style).spell(value)
