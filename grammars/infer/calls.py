"""Where a call begins and ends, what stands between two of them, and what is in it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from grammars.errors import DetectError
from grammars.infer.styles import find_member, find_objects
from grammars.infer.text import common_prefix, common_suffix, find_tag, tokenise
from grammars.schema.nodes import Json
from grammars.turn import ToolCall
from grammars.wire.format import CallIndex, Literal, Marker, Name, Node

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
        pieces += [Piece("text", text[place:at])] if at > place else []
        pieces.append(Piece(what, written))
        place = at + len(written)
    return Cut(holes[0][0], end, tuple(pieces))


@dataclass(frozen=True)
class Layout:
    """The fixed texts around calls: `opening prefix CALL suffix between ... closing`."""

    opening: str
    prefix: str
    suffix: str
    between: str
    rest: str  # what stands behind the last call: the closing, and the end of the turn
    lead: str = ""  # what the generation prompt has written of it


def find_layout(header: str, head: str, behind: str, amid: str | None) -> Layout:
    """Tells a call's own text from what stands around all calls.

    Args:
        header: what opens the turn.
        head: what stands in front of the first call's first hole.
        behind: what stands behind the only call's last hole.
        amid: what stands between two calls' holes; None if there is one call in a turn.
    """
    if amid is None:
        return Layout("", head, "", "", behind)
    prefix = common_suffix(header + head, amid).lstrip()
    lead = ""
    if len(prefix) > len(head):
        lead, head = prefix[: len(prefix) - len(head)], prefix
    suffix = common_prefix(amid, behind).rstrip()
    if len(prefix) + len(suffix) > len(amid):
        suffix = suffix[: len(amid) - len(prefix)].rstrip()
    between = amid[len(suffix) : len(amid) - len(prefix)]
    opening = head[: len(head) - len(prefix)]
    return Layout(opening, prefix, suffix, between, behind[len(suffix) :], lead)


def count_calls(first: Sequence[Piece], second: Sequence[Piece]) -> tuple[Piece, ...]:
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


def tell_ids(nodes: Sequence[Node]) -> tuple[Node, ...]:
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


def merge(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Literals side by side are one."""
    merged: list[Node] = []
    for node in nodes:
        last = merged[-1] if merged else None
        if isinstance(node, Literal) and isinstance(last, Literal):
            merged[-1] = Literal(last.text + node.text)
        elif not isinstance(node, Literal | Marker) or node.text:
            merged.append(node)
    return tuple(merged)
