"""Finds malformed calls, which no model was trained to write, and what the template means."""

import re
from dataclasses import replace
from difflib import SequenceMatcher

from grammars.infer.probes import write
from grammars.infer.text import find_tag, merge_literals, tokenise
from grammars.turn import ToolCall, Turn
from grammars.wire.format import (
    Fixed,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    NestedArguments,
    Node,
    TaggedArguments,
    spell_fixed,
    squeeze,
)
from grammars.wire.formats import NATIVE

_CALL = ToolCall("probe", {"key": "value"}, id="abcdefgh0")
# A tag that another one closes, with its argument (`<function=probe>`); others need no closing tag.
_PAIRED = re.compile(r"<(?P<slash>/?)(?P<name>\w[\w:.-]*)(?:[=\s][^<>]*)?>")
_CUT_TAG = re.compile(r"</?\w[\w:.-]*(?=<|\s*$)")
_ANY_TAG = re.compile(r"<[^<>]+>|\[/?[A-Z][A-Z_]+\]")
_BRACKETS = {"{": "}", "[": "]", "(": ")"}
_MAX_SLIPS = 2  # words and tags


def find_slip(format: Format, prompt: str) -> str:
    """Describes what is malformed in calls; "" if nothing is. The prompt may show closing tags."""
    if isinstance(format.hole, NestedArguments):
        return ""  # its marks are brackets that open nothing
    text = _write_call(format)
    return (
        _find_repeated_opener(format)
        or _find_unopened_call(format)
        or _find_unpaired_tag(text, format, prompt)
        or _find_missing_sign(format.header + text)  # the header may have opened a quote
    )


def _write_call(format: Format) -> str:
    """Returns a turn with one call; "" if the format cannot write it."""
    whole = replace(format, head="")  # its closing tag is after all calls
    return write(Turn(calls=(_CALL,)), whole, calls=0)


def _find_repeated_opener(format: Format) -> str:
    if format.opener is None:
        return ""
    closers = [node.text for node in format.closing]
    if isinstance(format.call[-1], Fixed):
        closers.append(format.call[-1].text)
    tag = find_tag(format.opener.text)
    if tag is not None and any(tag[0] in closer for closer in closers):
        return f"a call is closed with {tag[0]!r}, which opens it"
    return ""


def _find_unopened_call(format: Format) -> str:
    tag = _find_own_closer(format)
    if tag is None or format.single:
        return ""
    return f"each call is closed with </{tag}>, but only the first of a turn is opened with <{tag}>"


def _find_own_closer(format: Format) -> str | None:
    """Returns the name of the tag that each call closes, and only the text before all calls
    opens."""
    opened = [tag["name"] for tag in _PAIRED.finditer(spell_fixed(format.opening))]
    for tag in _PAIRED.finditer(spell_fixed(format.call)):
        if tag["slash"] and tag["name"] in opened:
            return tag["name"]
        if not tag["slash"]:
            opened = [name for name in opened if name != tag["name"]]
    return None


def open_each_call(slipped: Format) -> Format | None:
    """Returns the format in which every call is opened like the first one, if they lack no more."""
    if _find_own_closer(slipped) is None or slipped.closing:
        return None
    call = merge_literals([*slipped.opening, *slipped.call])
    return replace(slipped, opening=(), call=call)


def _find_unpaired_tag(text: str, format: Format, prompt: str) -> str:
    """Returns a tag of a call without its closing tag. Some tags need none, and some are closed by
    another tag; a closing tag is missing only if the prompt shows one."""
    if cut := _CUT_TAG.search(text):
        return f"the tag {cut[0]!r} has no end"
    opened: list[str] = []
    alone: list[str] = []
    for tag in _PAIRED.finditer(text):
        name = tag["name"]
        if not tag["slash"]:
            opened.append(name)
        elif name in opened:
            while (last := opened.pop()) != name:
                alone.append(last)
    for name in (*alone, *opened):
        closer = f"</{name}>"
        if closer in prompt and closer not in "".join(format.ends):
            return f"a call opens <{name}> and never closes it, but the prompt shows {closer!r}"
    return ""


def _find_missing_sign(text: str) -> str:
    plain = _ANY_TAG.sub("", text)
    if plain.count('"') % 2:
        return f"a quote is missing in {plain!r}"
    for opener, closer in _BRACKETS.items():
        if plain.count(opener) != plain.count(closer):
            return f"a bracket, {opener!r} or {closer!r}, is missing in {plain!r}"
    return ""


def find_meant(slipped: Format, prompt: str) -> Format | None:
    """Returns the known format that a template with malformed calls means: the prompt shows its
    markers, and its calls differ from those of the template only in the slip."""
    text = _CUT_TAG.sub(r"\g<0>>", _write_call(in_usual_style(slipped)))
    written = tokenise(squeeze(text))
    nearest: list[Format] = []
    fewest = _MAX_SLIPS
    for known in NATIVE:
        thoughts = () if known.reasoning is None else known.reasoning.markers
        tags = [marker for marker in known.markers if marker not in thoughts]
        if not tags or not all(tag in prompt for tag in tags):
            continue
        meant = tokenise(squeeze(_write_call(in_usual_style(known))))
        distance = _count_edits(written, meant)
        if distance < fewest:
            fewest, nearest = distance, []
        if distance == fewest:
            nearest.append(known)
    if len(nearest) != 1:
        return None
    (known,) = nearest
    return replace(
        known,
        reasoning=slipped.reasoning,
        contents=slipped.contents,
        ends=tuple(dict.fromkeys([*slipped.ends, *known.ends])),
    )


def in_usual_style(format: Format) -> Format:
    nodes: list[Node] = []
    for node in format.call:
        if isinstance(node, JsonCall | JsonArguments | TaggedArguments):
            node = replace(node, style=JsonStyle())
        nodes.append(node)
    return replace(format, call=tuple(nodes))


def _count_edits(words: list[str], other: list[str]) -> int:
    matcher = SequenceMatcher(None, words, other, autojunk=False)
    edits = 0
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind != "equal":
            edits += max(end - start, other_end - other_start)
    return edits
