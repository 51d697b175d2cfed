"""Finds the wire format of a chat template: inferred by probing, or from the registry."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from grammars.errors import DetectError
from grammars.infer.detection import Detection, Evidence, NoFormat, Origin, attempt
from grammars.infer.inference import infer
from grammars.infer.probes import KEYS, NAMES, TEXT, ProbedTemplate, plain_id
from grammars.infer.slips import find_meant, open_each_call
from grammars.infer.text import leading_space, merge_literals
from grammars.infer.turn import find_late_header
from grammars.infer.verify import find_other_call, try_after_prompt
from grammars.parse.render import render
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Fixed, Format, Hole, JsonStyle, Literal, Marker, Node, spell_fixed
from grammars.wire.formats import NATIVE


def find_format(chat: ProbedTemplate) -> Detection | NoFormat:
    """Returns the template's format, verified: it writes the same text as the template. There is
    none if the template writes no calls, or in a way that is neither inferred nor known."""
    found = _find(chat)
    if isinstance(found, NoFormat):
        return found
    chat = replace(chat, reasoning=found.format.reasoning)
    evidence = (*found.evidence, *find_other_call(chat, found.format))
    late = find_late_header(chat)
    if late is None:
        return replace(found, evidence=evidence)
    conclusion = f"a turn may begin with {late.text!r} after a result, where the prompt lacks it"
    evidence = (*evidence, Evidence("a turn after a result", late.text, conclusion))
    return replace(found, format=replace(found.format, late_header=late), evidence=evidence)


def _find(chat: ProbedTemplate) -> Detection | NoFormat:
    own = infer(chat)
    if isinstance(own, NoFormat):
        return _find_registered(chat, own.message)
    if own.slip:
        return _find_well_formed(chat, own)
    if not own.drops_thoughts:
        return own
    # A known format may know how thoughts are written.
    known = _find_registered(chat, "reasoning is written in no known way")
    return own if isinstance(known, NoFormat) else known


def _find_well_formed(chat: ProbedTemplate, slipped: Detection) -> Detection | NoFormat:
    """Returns a known format for a template whose calls are malformed or only seem to be: the one
    with exactly the same text, or else the one that the template means."""
    known = _find_registered(chat, slipped.slip)
    if isinstance(known, Detection):
        return known
    if opened := open_each_call(slipped.format):
        corrected = replace(slipped, format=opened)
        meaning = Evidence("two calls", "", "each is meant to be written as the first one")
    elif meant := find_meant(slipped.format, chat.render(opening=True)):
        corrected = replace(slipped, format=meant, origin=Origin.REGISTERED)
        meaning = Evidence("registry", "", f"the prompt shows the calls of {meant.name}")
    else:
        return known
    meaning = replace(meaning, conclusion=f"{slipped.slip}; {meaning.conclusion}")
    tried = attempt(lambda: tuple(try_after_prompt(chat, corrected.format)))
    if isinstance(tried, NoFormat):
        return tried
    return replace(corrected, evidence=(meaning, *tried))


def _find_registered(chat: ProbedTemplate, reason: str) -> Detection | NoFormat:
    """Finds the template's format in the registry. `reason`: why none is inferred."""
    known = attempt(partial(_read_registered, chat, reason))
    if isinstance(known, NoFormat) and not reason.startswith(known.message):
        return NoFormat(f"{known.message} ({reason})")
    return known


def _read_registered(chat: ProbedTemplate, reason: str) -> Detection:
    format = find_registered(chat)
    chat = replace(chat, reasoning=format.reasoning)
    tried = try_after_prompt(chat, format)
    conclusion = f"{reason}; calls are written as those of {format.name}"
    evidence = (Evidence("registry", "", conclusion), *tried, *_find_content_in_thought(chat))
    return Detection(format, Origin.REGISTERED, evidence)


def _find_content_in_thought(chat: ProbedTemplate) -> tuple[Evidence, ...]:
    """Returns content beside a call that the template writes as a thought, as evidence."""
    block, text = chat.reasoning, chat.answer(Turn(TEXT, calls=(chat.call,))) or ""
    if block is None or block.opener.text + block.pad_open + TEXT not in text:
        return ()
    conclusion = "the history has content beside a call as reasoning, unlike what the model wrote"
    return (Evidence("content and a call", text, conclusion),)


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
    candidates = list(_variants(formats))
    respaced = [_respace(known, probes.call) for known in candidates]
    for candidate in filter(None, (*candidates, *respaced)):
        found = _match(candidate, probes)
        if found is not None:
            block = chat.reasoning
            if block is None:
                return found
            # Whether a turn may start after the block is as in the known format, because no
            # template shows it.
            starts_closed = found.reasoning is not None and found.reasoning.starts_closed
            return replace(found, reasoning=replace(block, starts_closed=starts_closed))
    if _CALLS[0].name not in (probes.calls or probes.call):
        raise DetectError("the chat template writes no tool calls")
    raise DetectError("the chat template writes tool calls in a format that is not known")


def _match(candidate: Format, probes: _Probes) -> Format | None:
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
    for known in formats:
        for style in _STYLES:
            call: list[Node] = []
            for node in known.call:
                if isinstance(node, Hole) and node.style.escapes:
                    own = replace(node.style, item=style.item, key=style.key, ascii=style.ascii)
                    node = replace(node, style=own)
                call.append(node)
            yield replace(known, call=tuple(call))


def _respace(known: Format, written: str) -> Format | None:
    """Returns the format with the white space of a written call around its own texts, which
    converters of templates add and strip. None if the call still differs, or no white space
    does."""
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


def _complete(format: Format, probes: _Probes, *, first: str, rest: str) -> Format:
    """Returns the format with the separators and the end of turn that follow the `first` call."""
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
