"""The text around the arguments of a call that is one JSON object."""

import json
from dataclasses import replace
from typing import TypeAlias

from grammars.regex.writing import escape_regex
from grammars.spelling.keyword_arguments import WORD, find_enclosing_texts
from grammars.spelling.styles import find_breaks, speaks_json, spell
from grammars.wire.format import (
    CallId,
    CallIndex,
    Format,
    Hole,
    JsonArguments,
    JsonCall,
    JsonStyle,
    KeywordArguments,
)

BLANK = r"[ \t\r\n]"
"""A regular expression for one character of white space."""

Piece: TypeAlias = str | CallId | CallIndex
"""Text, or the hole of an id that is not known."""


def begin_call(format: Format) -> str:
    """Returns a regular expression for texts that begin like the bare calls of a format; for calls
    in Python, like a call of any name."""
    if isinstance(format.bare, KeywordArguments):
        opener = escape_regex(find_enclosing_texts(format).opener)
        start = [f"{BLANK}*{escape_regex(text)}" for text in format.bare_start]
        return f"{''.join(start)}{BLANK}*{WORD}{opener}"
    start = [f"{BLANK}*{escape_regex(text)}" for text in format.bare_start]
    return "".join(start)


def cut_opening(node: JsonCall, name: str, id: str | None) -> list[Piece]:
    """Returns the text of a JSON call before its arguments, in the pieces of which a JSON value
    consists. Without an id (None), any id may stand there."""
    style, breaks = node.style, find_breaks(node.style, node.style.level)
    pieces: list[Piece] = ["{" + breaks.open]
    if node.id is not None and node.id_first:
        pieces += [_spell(node, node.id_key), style.key, *_spell_id(node, id), breaks.item]
    pieces += [_spell(node, node.name_key), style.key, _spell(node, name), breaks.item]
    pieces += [_spell(node, node.arguments_key), style.key]
    return pieces


def cut_closing(node: JsonCall, id: str | None) -> list[Piece]:
    """Returns the text of a JSON call after its arguments, likewise in pieces."""
    breaks = find_breaks(node.style, node.style.level)
    pieces: list[Piece] = []
    if node.id is not None and not node.id_first:
        pieces += [breaks.item, _spell(node, node.id_key), node.style.key, *_spell_id(node, id)]
    pieces.append(breaks.close + "}")
    return pieces


def open_json_call(node: JsonCall, name: str, id: str = "") -> str:
    """Returns the text of a JSON call before its arguments."""
    return "".join(map(str, cut_opening(node, name, id)))


def close_json_call(node: JsonCall, id: str) -> str:
    """Returns the text of a JSON call after its arguments."""
    return "".join(map(str, cut_closing(node, id)))


def _spell_id(node: JsonCall, id: str | None) -> list[Piece]:
    if id is not None:
        return [_spell(node, id)]
    assert node.id is not None
    quote = node.style.quotes[0]
    return [quote, node.id, quote]


def _spell(node: JsonCall, text: str) -> str:
    return spell(text, node.style)


def encode_string(text: str, node: JsonArguments) -> str:
    """Writes the JSON text of the arguments as a JSON string."""
    return json.dumps(text, ensure_ascii=False) if node.encoded else text


def style_arguments(hole: Hole) -> JsonStyle:
    """Returns the style of the arguments. In an indented JSON call, they are one level deeper."""
    style = hole.style
    return replace(style, level=style.level + 1) if isinstance(hole, JsonCall) else style


def style_answer(hole: Hole) -> JsonStyle:
    """Returns the style of a JSON answer: that of the arguments if it is JSON on one line."""
    return hole.style if speaks_json(hole.style) and not hole.style.indent else JsonStyle()
