"""A call that is one JSON object: what stands around its arguments."""

import json
from dataclasses import replace

from grammars.build.rules import escape_regex
from grammars.spelling.styles import find_breaks, speaks_json, spell
from grammars.wire.format import Hole, JsonCall, JsonStyle

BLANK = r"[ \t\r\n]"
"""A character of white space."""

ANY_ID = "\0"
"""Stands for an id of which only the pattern is known."""

WRITTEN_ID = json.dumps(ANY_ID)[1:-1]
"""How it is written in a JSON call."""


def begin_call(bare: JsonCall) -> str:
    """An expression for texts that begin as this JSON object does."""
    key = escape_regex(json.dumps(bare.name_key, ensure_ascii=bare.style.ascii))
    return rf"{BLANK}*\{{{BLANK}*{key}(?s:.*)"


def open_json_call(node: JsonCall, name: str, id: str = "") -> str:
    """A JSON call up to where its arguments begin."""
    return "".join(cut_json_call(node, name, id))


def cut_json_call(node: JsonCall, name: str, id: str = "") -> tuple[str, ...]:
    """The same, cut into the pieces of other JSON values."""
    style, breaks = node.style, find_breaks(node.style, node.style.level)
    pieces: list[str] = []
    if node.id is not None and node.id_first:
        pieces = [_spell(node, node.id_key), style.key, _spell(node, id), breaks.item]
    pieces += [_spell(node, node.name_key), style.key, _spell(node, name), breaks.item]
    return ("{" + breaks.open, *pieces, _spell(node, node.arguments_key), style.key)


def close_json_call(node: JsonCall, id: str = "") -> str:
    """What follows the arguments of a JSON call."""
    breaks = find_breaks(node.style, node.style.level)
    if node.id is None or node.id_first:
        return breaks.close + "}"
    member = f"{_spell(node, node.id_key)}{node.style.key}{_spell(node, id)}"
    return f"{breaks.item}{member}{breaks.close}}}"


def _spell(node: JsonCall, text: str) -> str:
    return spell(text, node.style)


def style_arguments(hole: Hole) -> JsonStyle:
    """How the arguments are spelled; in an indented object they stand one level deeper."""
    style = hole.style
    return replace(style, level=style.level + 1) if isinstance(hole, JsonCall) else style


def style_answer(hole: Hole) -> JsonStyle:
    """How a JSON answer is spelled: as the arguments, if that is JSON on one line."""
    return hole.style if speaks_json(hole.style) and not hole.style.indent else JsonStyle()
