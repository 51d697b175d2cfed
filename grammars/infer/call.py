"""One call, node by node."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from grammars.errors import DetectError
from grammars.infer.arguments import Tagged, infer_tagged
from grammars.infer.calls import Cut, Layout, Piece, count_calls, merge, tell_ids
from grammars.infer.probes import KEYS, RICH, VALUES, Chat, long_id
from grammars.infer.styles import find_member, find_style
from grammars.infer.text import find_loose, make_nodes
from grammars.schema.nodes import Json
from grammars.turn import ToolCall, Turn
from grammars.wire.format import CallId, CallIndex, JsonArguments, JsonCall, JsonStyle, Name, Node

_ANY_ID = "[a-zA-Z0-9_-]{1,64}"


@dataclass(frozen=True)
class Written:
    """A call as the template writes it.

    Args:
        chat: the template.
        layout: the fixed texts around calls.
        closing: what stands behind the last call; behind the only one it is part of the call.
        only: a call by itself.
        pair: two calls; None if there is one in a turn.
    """

    chat: Chat
    layout: Layout
    closing: str
    only: Cut
    pair: tuple[Cut, Cut] | None

    @property
    def suffix(self) -> str:
        """What stands behind a call's last hole, to its end."""
        return self.layout.suffix if self.pair else self.closing


def build_call(written: Written) -> tuple[Node, ...]:
    """The nodes of a call.

    Raises:
        DetectError: a part of it that no node describes.
    """
    prefix, suffix = written.layout.prefix, written.suffix
    pieces = written.only.pieces
    if written.pair:
        pieces = count_calls(written.pair[0].pieces, written.pair[1].pieces)
    tagged = None
    if pieces[-1].kind == "tagged":
        last = pieces[-2].text if pieces[-2].kind == "text" else ""
        tagged = _read_tagged(written, len(last))
        kept = pieces[: -2 if last else -1]
        pieces, suffix = (*kept, Piece("text", tagged.before), pieces[-1]), tagged.rest
    loose = find_loose(prefix, suffix, *(p.text for p in pieces if p.kind == "text"))
    opens = not written.layout.opening and not (pieces[0].kind == "call" and not prefix)
    nodes: list[Node] = list(make_nodes(prefix, loose, opens=opens))
    for piece in pieces:
        nodes += make_nodes(piece.text, loose) if piece.kind == "text" else []
        nodes += [] if piece.kind == "text" else [_make_hole(piece, written, tagged)]
    return tell_ids(merge([*nodes, *make_nodes(suffix, loose)]))


def _make_hole(piece: Piece, written: Written, tagged: Tagged | None) -> Node:
    match piece.kind:
        case "name":
            return Name()
        case "id":
            return _find_id(written.chat)
        case "index":
            return CallIndex(int(piece.text))
        case "call":
            return _read_json_call(written)
        case "arguments":
            return JsonArguments(_read_style(written))
        case _:
            assert tagged
            return tagged.hole


def _find_id(chat: Chat) -> CallId:
    """Templates that write ids of nine characters refuse all others."""
    other = replace(chat, scheme=long_id)
    (call,) = other.calls({KEYS[0]: VALUES[0]})
    text = other.body(Turn(calls=(call,)))
    return CallId(_ANY_ID) if text and call.id and call.id in text else CallId()


@dataclass(frozen=True)
class _Frame:
    """What stands in front of the last piece of a lone call, and behind the call."""

    head: str
    tail: str

    def cut(self, chat: Chat, call: ToolCall) -> str:
        """What another call has between the two."""
        text = chat.read(Turn(calls=(call,)))
        fits = text.startswith(self.head) and text.endswith(self.tail)
        if not fits or len(text) < len(self.head) + len(self.tail):
            raise DetectError(f"the text around arguments depends on them: {text!r}")
        return text[len(self.head) : len(text) - len(self.tail)]


def _find_frame(written: Written, lead: int = 0, suffix: str = "") -> _Frame:
    """The frame, `lead` characters earlier; behind it, without the `suffix`."""
    only, layout = written.only, written.layout
    (call,) = written.chat.calls({KEYS[0]: VALUES[0]})
    one = written.chat.read(Turn(calls=(call,)))
    shift = len(layout.opening + layout.prefix) - only.start  # the prompt writes so much itself
    begin = only.end - len(only.pieces[-1].text) - lead + shift
    return _Frame(one[:begin], one[only.end + shift + len(suffix) :])


def _rich_call(written: Written) -> tuple[ToolCall, str]:
    """A call with arguments of all types, and how its last piece is written."""
    (call,) = written.chat.calls(RICH)
    return call, _find_frame(written).cut(written.chat, call)


def _read_style(written: Written) -> JsonStyle:
    call, text = _rich_call(written)
    found = find_member(written.only.pieces[-1].text, KEYS[0], VALUES[0], 0)
    return _require_style(call.arguments, text, found["quote"] if found else "")


def _require_style(value: Json, text: str, quote: str = "") -> JsonStyle:
    style = find_style((value, text), quote=quote)
    if style is None:
        raise DetectError(f"JSON is written in an unknown style: {text!r}")
    return style


def _read_json_call(written: Written) -> JsonCall:
    call, text = _rich_call(written)
    members: dict[str, Json] = json.loads(text)
    keys = list(members)
    name_key = next(key for key in keys if members[key] == call.name)
    arguments_key = next(key for key in keys if members[key] == call.arguments)
    others = [key for key in keys if key not in (name_key, arguments_key)]
    node = JsonCall(name_key, arguments_key, _require_style(members, text))
    if not others:
        expected = [name_key, arguments_key]
    else:
        node = replace(node, id_key=others[0], id_first=keys[0] == others[0])
        node = replace(node, id=_read_id(others[0], members, call, written))
        expected = [name_key, arguments_key]
        expected.insert(0 if node.id_first else 2, others[0])
    if keys != expected:
        raise DetectError(f"a call has other members than name, arguments and id: {text!r}")
    return node


def _read_id(
    key: str, members: Mapping[str, Json], call: ToolCall, written: Written
) -> CallId | CallIndex:
    value = members[key]
    if value == call.id:
        return _find_id(written.chat)
    if isinstance(value, str) and value.isdecimal():
        first = int(value)
        second: Any = json.loads(written.pair[1].pieces[0].text) if written.pair else {}
        if second.get(key, str(first + 1)) == str(first + 1):
            return CallIndex(first)
    raise DetectError(f"the member {key!r} of a call is neither its id nor its number")


def _read_tagged(written: Written, lead: int) -> Tagged:
    """How arguments stand between tags; `lead` characters stand between them and the name."""
    frame = _find_frame(written, lead, written.suffix)

    def inside(arguments: Mapping[str, Json]) -> str:
        (call,) = written.chat.calls(arguments)
        return frame.cut(written.chat, call)

    return infer_tagged(inside, written.suffix)
