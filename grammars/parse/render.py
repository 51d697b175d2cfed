"""Renders a turn as text: the inverse of `parse`. Refuses what would be ambiguous in the format."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from grammars.errors import RenderError
from grammars.turn import Start, State, Tool, ToolCall, Turn
from grammars.turn_grammar.arguments.kind import CallToWrite
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.wire.format import (
    CallId,
    CallIndex,
    ContentPlace,
    Format,
    Literal,
    Marker,
    Name,
    spell_fixed,
)


def render(
    turn: Turn, format: Format, tools: Sequence[Tool] = (), state: State | None = None
) -> str:
    """Returns the text of a turn as the model writes it after the prompt, without the end of turn.
    The schemas of the tools decide how raw text is read back; a block that is open at the end of
    the prompt is not opened again.

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
    """Returns the header that the prompt lacks, if the template writes it before such a turn."""
    late = format.late_header
    if late is None or not state.header:
        return ""
    is_written = late.before_calls if turn.calls else late.before_content
    return state.header if is_written else ""


def render_opening(format: Format, name: str, state: State | None = None) -> str:
    """Returns the text with which the first call of a turn begins, up to its arguments, or up to an
    id that the model makes up. The state has the number of calls before this turn."""
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
            case CallId() | CallIndex():
                return text
            case _:
                kind = find_kind(format)
                index = kind.id.count(calls, 0) if isinstance(kind.id, CallIndex) else None
                pieces = kind.open_call(name, None if index is None else str(index))
                written = takewhile(lambda piece: isinstance(piece, str), pieces)
                return text + "".join(map(str, written))
    return text


def join_before(content: str, calls: str, format: Format) -> str:
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
    if not format.escapes_content and re.match(find_kind(format).match_start(), turn.content):
        raise RenderError("the content starts like a call", where="/content")


def _calls(calls: Sequence[ToolCall], format: Format, tools: Sequence[Tool], state: State) -> str:
    known = {tool.name: tool for tool in tools}
    written = [
        _CallWriter(call, number, format, known, state).write() for number, call in enumerate(calls)
    ]
    around = format.several if format.several and len(calls) > 1 else format
    return spell_fixed(around.opening) + around.between.join(written) + spell_fixed(around.closing)


@dataclass(frozen=True)
class _CallWriter:
    """Writes the call with this number in its turn."""

    call: ToolCall
    number: int
    format: Format
    tools: Mapping[str, Tool]
    state: State

    @property
    def where(self) -> str:
        return f"/calls/{self.number}"

    def write(self) -> str:
        kind = find_kind(self.format)
        kind.check_name(self.call.name)
        try:
            json.dumps(self.call.arguments, allow_nan=False, ensure_ascii=False).encode()
        except ValueError as e:
            raise RenderError(f"not JSON: {e}", where=f"{self.where}/arguments") from e
        text = ""
        for node in self.format.call:
            match node:
                case Literal(part) | Marker(part):
                    text += part
                case Name():
                    text += self.call.name
                case CallId() | CallIndex():
                    text += self._id(node)
                case _:
                    name, id = self.call.name, self._id(kind.id) if kind.id else ""
                    where = f"{self.where}/arguments"
                    arguments = kind.write(
                        CallToWrite(name, self.call.arguments, self.tools, where)
                    )
                    parts = [*kind.open_call(name, id), arguments, *kind.close_call(id)]
                    text += "".join(map(str, parts))
        return text

    def _id(self, node: CallId | CallIndex) -> str:
        """Returns the id as the format spells it; the number of the call if it has none that
        fits."""
        if isinstance(node, CallIndex):
            written = _read_index(node, self.call.name, self.call.id)
            return written or str(node.count(self.state.calls or 0, self.number))
        id = f"{self.number:09}" if self.call.id is None else self.call.id
        if not re.fullmatch(node.pattern, id):
            message, hint = f"the id {id!r} cannot be written", f"It must match {node.pattern}"
            raise RenderError(message, where=f"{self.where}/id", hint=hint)
        return id


def _read_index(node: CallIndex, name: str, id: str | None) -> str | None:
    """Reads the index from a call's id; None: the id has none."""
    if not node.id:
        return None
    pattern = re.escape(node.id.replace("{name}", name)).replace(r"\{index\}", "([0-9]+)")
    match = re.fullmatch(pattern, id or "")
    return match[1] if match else None
