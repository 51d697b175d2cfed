"""Finds formats of the registry in what a chat template renders, for formats that cannot be
inferred: a known one is what the template teaches if it writes calls exactly as the format does."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grammars.errors import DetectError
from grammars.infer.probes import KEYS, NAMES, TEXT, ProbedTemplate, plain_id
from grammars.infer.text import leading_space, merge_literals
from grammars.parse.render import render
from grammars.turn import ToolCall, Turn
from grammars.wire.format import (
    Fixed,
    Format,
    Hole,
    JsonStyle,
    Literal,
    Marker,
    Node,
    Reasoning,
    spell_fixed,
)
from grammars.wire.formats import NATIVE

_CALLS = (
    ToolCall(NAMES[0], {KEYS[0]: "Zürich", KEYS[1]: 3}, id=plain_id(NAMES[0], 0)),
    ToolCall(NAMES[0], {KEYS[0]: "Rome", KEYS[1]: 1}, id=plain_id(NAMES[0], 1)),
)
_SPACE = r"\s{0,4}"
_STYLES = (
    JsonStyle(),
    JsonStyle(item=",", key=":"),
    JsonStyle(ascii=True),
    JsonStyle(item=",", key=":", ascii=True),
)


@dataclass(frozen=True)
class _Probes:
    """Renders of the same conversation that differ in one thing; "" if the template refused one."""

    call: str
    calls: str
    content: str
    both: str
    opening: str


def find_registered(chat: ProbedTemplate, formats: Sequence[Format] = NATIVE) -> Format:
    """Returns the known format that the template writes, with the template's texts around the
    calls. Raises a `DetectError` if none of `formats` writes calls as this template does."""
    probes = _Probes(
        call=chat.answer(Turn(calls=_CALLS[:1])) or "",
        calls=chat.answer(Turn(calls=_CALLS)) or "",
        content=chat.answer(Turn(TEXT)) or "",
        both=chat.answer(Turn(TEXT, calls=_CALLS[:1])) or "",
        opening=chat.ask(opening=True) or "",
    )
    for candidate in (*_variants(formats), *_respaced(formats, probes)):
        found = _find(candidate, probes)
        if found is not None:
            return _take_reasoning(found, chat.reasoning)
    if _CALLS[0].name not in (probes.calls or probes.call):
        raise DetectError("the chat template writes no tool calls")
    raise DetectError("the chat template writes tool calls in a format that is not known")


def _take_reasoning(known: Format, block: Reasoning | None) -> Format:
    """Returns the format with the template's block, if it writes one. Whether a turn may start
    after the block stays as in the known format, because no template shows it."""
    if block is None:
        return known
    starts_closed = known.reasoning is not None and known.reasoning.starts_closed
    return replace(known, reasoning=replace(block, starts_closed=starts_closed))


def _find(candidate: Format, probes: _Probes) -> Format | None:
    """Returns the candidate if the template writes one call and several calls as it does."""
    one = render(Turn(calls=_CALLS[:1]), candidate)
    head, found, rest = probes.call.partition(one)
    single = candidate.single or render(Turn(calls=_CALLS), candidate) not in probes.calls
    if not found and not single:
        one = one.removesuffix(spell_fixed(candidate.closing))
        head, found, rest = probes.call.partition(one)
        candidate = replace(candidate, closes_one=False)
    if not found:
        return None
    if candidate.bare is not None and head != probes.opening:
        return None  # any object could occur elsewhere
    if single and str(_CALLS[1].arguments[KEYS[0]]) in probes.calls:
        return None  # it writes a second call, in another way
    return _complete(replace(candidate, single=single), probes, first=one, rest=rest)


def _variants(formats: Sequence[Format]) -> Iterator[Format]:
    """Yields each format in each spelling of JSON."""
    for known in formats:
        for style in _STYLES:
            yield replace(known, call=tuple(_restyle(node, style) for node in known.call))


def _respaced(formats: Sequence[Format], probes: _Probes) -> Iterator[Format]:
    """Yields each format that the template writes with other white space around its markers, with
    that white space. Converters of templates add and strip it."""
    for known in _variants(formats):
        respaced = _respace(known, probes.call)
        if respaced is not None:
            yield respaced


def _respace(known: Format, written: str) -> Format | None:
    """Returns the format with the white space around its own texts in a written call. None if the
    call still differs, or if no white space does."""
    pieces: list[str] = []
    one = render(Turn(calls=_CALLS[:1]), replace(known, after=""))
    position = 0
    for node in known.call:
        if not isinstance(node, Fixed):
            continue
        start = one.find(node.text, position)
        # White space before the text that opens the call belongs to the turn.
        before = rf"({_SPACE})" if pieces else f"({re.escape(leading_space(node.text))})"
        pieces.append(re.escape(one[position:start]) if pieces else "")
        pieces.append(f"{before}{re.escape(node.text.strip())}({_SPACE})")
        position = start + len(node.text)
    rest = one[position:].removesuffix(spell_fixed(known.closing))
    found = re.search("".join(pieces) + re.escape(rest), written)
    if found is None:
        return None
    spaces = iter(found.groups())
    nodes: list[Node] = []
    for node in known.call:
        if isinstance(node, Fixed):
            nodes += _space_out(node, next(spaces), next(spaces))
        else:
            nodes.append(node)
    call = merge_literals(nodes)
    return None if call == known.call else replace(known, call=call)


def _space_out(node: Fixed, before: str, following: str) -> tuple[Node, ...]:
    """Returns the text with this white space around it. A marker keeps its own white space if it is
    the same, because a vocabulary may have a token for both."""
    text = node.text.strip()
    if node.text == before + text + following:
        return (node,)
    if isinstance(node, Literal):
        return (Literal(before + text + following),)
    return Literal(before), Marker(text), Literal(following)


def _restyle(node: Node, style: JsonStyle) -> Node:
    """Returns the node with the separators and escapes of that style, if it has any."""
    if not isinstance(node, Hole) or not node.style.escapes:
        return node
    own = replace(node.style, item=style.item, key=style.key, ascii=style.ascii)
    return replace(node, style=own)


def _complete(format: Format, probes: _Probes, *, first: str, rest: str) -> Format:
    """Returns the format with the separators and the end of turn that the template writes. `first`:
    the first call; `rest`: the text after the only call of a turn."""
    end = probes.content.partition(TEXT)[2].strip()
    for content in format.contents:
        end = end.removeprefix(content.closer)
    end = end.removeprefix(format.tail)
    completed = replace(format, after="")
    if end:
        completed = replace(completed, ends=tuple(dict.fromkeys([end, *format.ends])))
        after, found, _ = rest.partition(end)
        if found and not after.strip():
            completed = replace(completed, after=after)
    _, found, following = probes.both.partition(TEXT)
    before = following.partition(first)[0]
    if found and not before.strip():
        completed = replace(completed, before=before)
    return completed
