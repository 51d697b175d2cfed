"""Where calls begin and end, what stands between two of them, and what is in one, node by node."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from typing import Literal as OneOf

from grammars.errors import DetectError
from grammars.infer.arguments import Tagged, infer_tagged
from grammars.infer.probes import KEYS, RICH, VALUES, ProbedTemplate, long_id
from grammars.infer.styles import find_member, find_objects, find_style
from grammars.infer.text import (
    common_prefix,
    common_suffix,
    find_loose,
    find_tag,
    make_nodes,
    tokenise,
)
from grammars.schema.nodes import Json
from grammars.turn import ToolCall, Turn
from grammars.wire.format import (
    CallId,
    CallIndex,
    JsonArguments,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Name,
    Node,
)

_ANY_ID = "[a-zA-Z0-9_-]{1,64}"
Kind = OneOf["text", "name", "id", "index", "call", "arguments", "tagged"]


@dataclass(frozen=True)
class Piece:
    """A part of a call: fixed text, or what stands where a hole is."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Cut:
    """A call in a text, from its first hole to its last: its bounds, and its pieces."""

    start: int
    end: int
    pieces: tuple[Piece, ...]


def cut_call(text: str, call: ToolCall, start: int = 0) -> Cut | None:
    """Finds the call behind `start`; None if its name or its arguments are not written there."""
    for value, begin, end in find_objects(text, start):
        if _is_call(value, call):
            return Cut(begin, end, (Piece("call", text[begin:end]),))
        if value == call.arguments and call.arguments:
            return _cut_holes(text, call, start, begin, end, "arguments")
    for key, value in call.arguments.items():
        if found := find_member(text, key, str(value), start):
            return _cut_holes(text, call, start, found.start(), found.end(), "arguments")
    begin = text.find(call.name, start)
    place = begin + len(call.name)
    places: list[int] = []
    for key, value in call.arguments.items():
        for written in (key, str(value)):
            at = text.find(written, place)
            if begin < 0 or at < 0:
                return None
            places.append(at)
            place = at + len(written)
    return _cut_holes(text, call, start, places[0], place, "tagged") if places else None


def _is_call(value: dict[str, Json], call: ToolCall) -> bool:
    values = list(value.values())
    return call.name in values and call.arguments in values


def _cut_holes(text: str, call: ToolCall, start: int, begin: int, end: int, kind: Kind) -> Cut:
    """Finds name and id in front of the arguments, which stand from `begin` to `end`."""
    holes: list[tuple[int, Kind, str]] = [(begin, kind, text[begin:end])]
    # Of an id that tells the name, the name is what is looked for.
    id = call.id if call.id and call.name not in call.id else ""
    known: tuple[tuple[Kind, str], ...] = (("name", call.name), ("id", id))
    for what, written in known:
        at = text.find(written, start, begin) if written else -1
        while at >= 0:
            holes.append((at, what, written))
            at = text.find(written, at + len(written), begin)
    holes.sort()  # by place
    pieces: list[Piece] = []
    place = holes[0][0]
    for at, what, written in holes:
        if at > place:
            pieces.append(Piece("text", text[place:at]))
        pieces.append(Piece(what, written))
        place = at + len(written)
    return Cut(holes[0][0], end, tuple(pieces))


@dataclass(frozen=True)
class CallLayout:
    """The fixed texts around calls: `opening prefix CALL suffix between ... closing`."""

    opening: str
    prefix: str
    suffix: str
    between: str
    rest: str  # what stands behind the last call: the closing, and the end of the turn
    lead: str = ""  # what the generation prompt has written of it


def find_layout(header: str, head: str, behind: str, amid: str | None) -> CallLayout:
    """Tells a call's own text from what stands around all calls.

    Args:
        header: what opens the turn.
        head: what stands in front of the first call's first hole.
        behind: what stands behind the only call's last hole.
        amid: what stands between two calls' holes; None if there is one call in a turn.
    """
    if amid is None:
        return CallLayout("", head, "", "", behind)
    prefix = common_suffix(header + head, amid).lstrip()
    lead = ""
    if len(prefix) > len(head):
        lead, head = prefix[: len(prefix) - len(head)], prefix
    suffix = common_prefix(amid, behind).rstrip()
    if len(prefix) + len(suffix) > len(amid):
        suffix = suffix[: len(amid) - len(prefix)].rstrip()
    between = amid[len(suffix) : len(amid) - len(prefix)]
    opening = head[: len(head) - len(prefix)]
    return CallLayout(opening, prefix, suffix, between, behind[len(suffix) :], lead)


def _find_counters(first: Sequence[Piece], second: Sequence[Piece]) -> tuple[Piece, ...]:
    """The pieces of the first call, with what counts the calls told from fixed text.

    Raises:
        DetectError: the texts of two calls differ in another way.
    """
    if [p.kind for p in first] != [p.kind for p in second]:
        raise DetectError("two calls are not written alike")
    pieces: list[Piece] = []
    for one, two in zip(first, second, strict=True):
        if one.kind != "text" or one.text == two.text:
            pieces.append(one)
            continue
        for a, b in _compare(one.text, two.text):
            if a != b and not (a.isdecimal() and b == str(int(a) + 1)):
                raise DetectError(f"two calls differ in {a!r} and {b!r}")
            if a == b and pieces and pieces[-1].kind == "text":
                pieces[-1] = Piece("text", pieces[-1].text + a)
            else:
                pieces.append(Piece("text" if a == b else "index", a))
    return tuple(pieces)


def _compare(first: str, second: str) -> Iterable[tuple[str, str]]:
    one, two = tokenise(first), tokenise(second)
    if len(one) != len(two):
        raise DetectError(f"two calls differ in {first!r} and {second!r}")
    return zip(one, two, strict=True)


def _tell_ids(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Where a counter stands in one text with the name, both together are the id."""
    told = list(nodes)
    for i, node in enumerate(nodes):
        if isinstance(node, CallIndex):
            before = _reach(list(reversed(nodes[:i])), "{name}", backwards=True)
            id = before + "{index}" + _reach(nodes[i + 1 :], "{name}", backwards=False)
            apart = "{name}" in id and "}{" not in id  # with nothing between them none is read
            told[i] = replace(node, id=id if apart else "{index}")
    return tuple(told)


def _reach(nodes: Iterable[Node], name: str, *, backwards: bool) -> str:
    """The text next to a counter, up to a tag, white space or quotes."""
    text = ""
    for node in nodes:
        if isinstance(node, Name):
            text = name + text if backwards else text + name
            continue
        if not isinstance(node, Literal) or find_tag(node.text):
            break
        words = tokenise(node.text)
        for word in reversed(words) if backwards else words:
            if word.isspace() or word in "\"'":
                return text
            text = word + text if backwards else text + word
    return text


def _merge(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Literals side by side are one."""
    merged: list[Node] = []
    for node in nodes:
        last = merged[-1] if merged else None
        if isinstance(node, Literal) and isinstance(last, Literal):
            merged[-1] = Literal(last.text + node.text)
        elif not isinstance(node, Literal | Marker) or node.text:
            merged.append(node)
    return tuple(merged)


@dataclass(frozen=True)
class CallSample:
    """A call as the template writes it.

    Args:
        chat: the template.
        layout: the fixed texts around calls.
        closing: what stands behind the last call; behind the only one it is part of the call.
        only: a call by itself.
        pair: two calls; None if there is one in a turn.
    """

    chat: ProbedTemplate
    layout: CallLayout
    closing: str
    only: Cut
    pair: tuple[Cut, Cut] | None

    @property
    def suffix(self) -> str:
        """What stands behind a call's last hole, to its end."""
        return self.layout.suffix if self.pair else self.closing


def build_call(written: CallSample) -> tuple[Node, ...]:
    """The nodes of a call.

    Raises:
        DetectError: a part of it that no node describes.
    """
    prefix, suffix = written.layout.prefix, written.suffix
    pieces = written.only.pieces
    if written.pair:
        pieces = _find_counters(written.pair[0].pieces, written.pair[1].pieces)
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
        if piece.kind == "text":
            nodes += make_nodes(piece.text, loose)
        else:
            nodes.append(_make_hole(piece, written, tagged))
    nodes += make_nodes(suffix, loose)
    return _tell_ids(_merge(nodes))


def _make_hole(piece: Piece, written: CallSample, tagged: Tagged | None) -> Node:
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


def _find_id(chat: ProbedTemplate) -> CallId:
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

    def cut(self, chat: ProbedTemplate, call: ToolCall) -> str:
        """What another call has between the two."""
        text = chat.read(Turn(calls=(call,)))
        fits = text.startswith(self.head) and text.endswith(self.tail)
        if not fits or len(text) < len(self.head) + len(self.tail):
            raise DetectError(f"the text around arguments depends on them: {text!r}")
        return text[len(self.head) : len(text) - len(self.tail)]


def _find_frame(written: CallSample, lead: int = 0, suffix: str = "") -> _Frame:
    """The frame, `lead` characters earlier; behind it, without the `suffix`."""
    only, layout = written.only, written.layout
    (call,) = written.chat.calls({KEYS[0]: VALUES[0]})
    one = written.chat.read(Turn(calls=(call,)))
    shift = len(layout.opening + layout.prefix) - only.start  # the prompt writes so much itself
    begin = only.end - len(only.pieces[-1].text) - lead + shift
    return _Frame(one[:begin], one[only.end + shift + len(suffix) :])


def _rich_call(written: CallSample) -> tuple[ToolCall, str]:
    """A call with arguments of all types, and how its last piece is written."""
    (call,) = written.chat.calls(RICH)
    return call, _find_frame(written).cut(written.chat, call)


def _read_style(written: CallSample) -> JsonStyle:
    call, text = _rich_call(written)
    found = find_member(written.only.pieces[-1].text, KEYS[0], VALUES[0], 0)
    return _require_style(call.arguments, text, found["quote"] if found else "")


def _require_style(value: Json, text: str, quote: str = "") -> JsonStyle:
    style = find_style((value, text), quote=quote)
    if style is None:
        raise DetectError(f"JSON is written in an unknown style: {text!r}")
    return style


def _read_json_call(written: CallSample) -> JsonCall:
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
    key: str, members: Mapping[str, Json], call: ToolCall, written: CallSample
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


def _read_tagged(written: CallSample, lead: int) -> Tagged:
    """How arguments stand between tags; `lead` characters stand between them and the name."""
    frame = _find_frame(written, lead, written.suffix)

    def inside(arguments: Mapping[str, Json]) -> str:
        (call,) = written.chat.calls(arguments)
        return frame.cut(written.chat, call)

    return infer_tagged(inside, written.suffix)
